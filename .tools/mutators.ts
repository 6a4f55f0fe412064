// The faults that can be planted in a module: small changes of its syntax, each of which a test should notice.
import type { Node, SourceFile } from 'typescript/unstable/ast'
import { SyntaxKind } from 'typescript/unstable/ast'

/** One change: the text between two offsets is replaced. */
export interface Change {
  from: number
  to: number
  text: string
}

/** Operators and their replacements. */
const operators = new Map(
  Object.entries({
    '<': '<=',
    '<=': '<',
    '>': '>=',
    '>=': '>',
    '===': '!==',
    '!==': '===',
    '+': '-',
    '-': '+',
    '*': '/',
    '/': '*',
    '%': '*',
    '&&': '||',
    '||': '&&',
    '??': '&&',
    '+=': '-=',
    '-=': '+=',
    '&': '|',
    '|': '&'
  })
)

/** Methods and their opposites. */
const methods = new Map(
  Object.entries({
    min: 'max',
    max: 'min',
    ceil: 'floor',
    floor: 'ceil',
    some: 'every',
    every: 'some'
  })
)

/** Types and imports, which do not exist at run time, and template strings, which are mostly messages for people. */
const skipped: ReadonlySet<SyntaxKind> = new Set([
  SyntaxKind.InterfaceDeclaration,
  SyntaxKind.TypeAliasDeclaration,
  SyntaxKind.ImportDeclaration,
  SyntaxKind.ExportDeclaration,
  SyntaxKind.TypeReference,
  SyntaxKind.TypeLiteral,
  SyntaxKind.UnionType,
  SyntaxKind.LiteralType,
  SyntaxKind.FunctionType,
  SyntaxKind.TupleType,
  SyntaxKind.ArrayType,
  SyntaxKind.TypeOperator,
  SyntaxKind.IndexedAccessType,
  SyntaxKind.MappedType,
  SyntaxKind.TypeQuery,
  SyntaxKind.ConditionalType,
  SyntaxKind.TemplateExpression
])

/** Every change of a module, in the order of its text. */
export function changesOf(file: SourceFile): Change[] {
  const { text } = file
  const changes: Change[] = []
  const startOf = (node: Node): number => node.getStart(file)
  const replace = (node: Node, by: string): void => void changes.push({ from: startOf(node), to: node.end, text: by })
  const sourceOf = (node: Node): string => text.slice(startOf(node), node.end)

  const visit = (node: Node): void => {
    if (skipped.has(node.kind)) return
    change(node as AnyNode)
    node.forEachChild((child) => void visit(child))
  }
  const change = (node: AnyNode): void => {
    switch (node.kind) {
      case SyntaxKind.BinaryExpression: {
        const other = operators.get(sourceOf(node.operatorToken!))
        if (other !== undefined && !isText(node)) replace(node.operatorToken!, other)
        return
      }
      case SyntaxKind.IfStatement:
        return both(node.expression!)
      case SyntaxKind.ConditionalExpression:
        return both(node.condition!)
      case SyntaxKind.PrefixUnaryExpression:
        if (sourceOf(node).startsWith('!')) replace(node, `(${sourceOf(node.operand!)})`)
        return
      case SyntaxKind.ExpressionStatement:
      case SyntaxKind.ThrowStatement:
        // Without the call of the superclass constructor, no object could be made at all.
        return sourceOf(node).startsWith('super(') ? undefined : replace(node, ';')
      case SyntaxKind.NumericLiteral:
      case SyntaxKind.BigIntLiteral:
        return replace(node, `(${sourceOf(node)} + ${node.kind === SyntaxKind.BigIntLiteral ? '1n' : '1'})`)
      case SyntaxKind.TrueKeyword:
        return replace(node, 'false')
      case SyntaxKind.FalseKeyword:
        return replace(node, 'true')
      case SyntaxKind.PropertyAccessExpression: {
        const other = methods.get(sourceOf(node.name!))
        if (other !== undefined) replace(node.name!, other)
      }
    }
  }
  const both = (condition: Node): void => {
    replace(condition, 'true')
    replace(condition, 'false')
  }
  visit(file)
  return changes.toSorted((one, other) => one.from - other.from || one.to - other.to)
}

/** Whether it is a text, or several that are put together: a description that has more than one line. */
function isText(node: AnyNode): boolean {
  if (node.kind !== SyntaxKind.BinaryExpression) return node.kind === SyntaxKind.StringLiteral
  return isText(node.left!) && isText(node.right!)
}

/** A node with the properties that are used here. */
type AnyNode = Node & {
  left?: AnyNode
  right?: AnyNode
  operatorToken?: Node
  expression?: Node
  condition?: Node
  operand?: Node
  name?: Node
}
