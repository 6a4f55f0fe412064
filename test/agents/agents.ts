// The command-line agents: how each is told where the gateway is, not to call home, and what to do.
import { join } from 'node:path'
import { arch, platform } from 'node:process'

/** Where an agent finds the gateway. */
export interface Address {
  /** Without `/v1`. */
  url: string
  key: string
  model: string
}

export interface Agent {
  name: string
  /** What a request record calls its protocol. */
  protocol: string
  program: string
  /** The call that makes its shell write a file. */
  call(command: string): object
  args(prompt: string, model: string): string[]
  env(address: Address): Record<string, string>
  /** Where else it goes, whatever it is told. */
  wants?: RegExp
  /** Its settings: a file, relative to the home folder, and what is in it. */
  settings?(address: Address): [file: string, text: string]
}

const modules = join(import.meta.dirname, 'node_modules')
/** What its vendors' packages for this machine are called. */
const machine = `${platform}-${arch}`
const bin = (name: string): string => join(modules, '.bin', name)

export const agents: readonly Agent[] = [
  {
    name: 'claude-code',
    protocol: 'anthropic',
    program: join(modules, `@anthropic-ai/claude-code-${machine}/claude`),
    call: (command) => ({ call: 'Bash', arguments: { command, description: 'Writes a file' } }),
    args: (prompt) => ['-p', prompt, '--allowedTools', 'Bash'],
    env: ({ url, key, model }) => ({
      ANTHROPIC_BASE_URL: url,
      ANTHROPIC_API_KEY: key,
      ANTHROPIC_MODEL: model,
      ANTHROPIC_SMALL_FAST_MODEL: model,
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1'
    })
  },
  {
    name: 'codex',
    protocol: 'openai-responses',
    program: bin('codex'),
    call: (cmd) => ({ call: 'exec_command', arguments: { cmd } }),
    args: (prompt) => ['exec', '--skip-git-repo-check', '--dangerously-bypass-approvals-and-sandbox', prompt],
    env: ({ key }) => ({ SLUICE_KEY: key }),
    // Its search of the web runs at its vendor, which no other channel can do.
    settings: ({ url, model }) => [
      '.codex/config.toml',
      `
model = "${model}"
model_provider = "sluice"
web_search = "disabled"
check_for_update_on_startup = false
analytics = { enabled = false }
features = { plugins = false, apps = false }
model_providers.sluice = { name = "Sluice", base_url = "${url}/v1", env_key = "SLUICE_KEY", wire_api = "responses" }
`
    ]
  },
  {
    name: 'gemini-cli',
    protocol: 'gemini',
    program: bin('gemini'),
    call: (command) => ({ call: 'run_shell_command', arguments: { command } }),
    args: (prompt, model) => ['-m', model, '--yolo', '-p', prompt],
    env: ({ url, key }) => ({ GEMINI_API_KEY: key, GOOGLE_GEMINI_BASE_URL: url, GEMINI_CLI_TRUST_WORKSPACE: 'true' }),
    settings: () => [
      '.gemini/settings.json',
      JSON.stringify({
        security: { auth: { selectedType: 'gemini-api-key' } },
        privacy: { usageStatisticsEnabled: false },
        general: { enableAutoUpdate: false, enableAutoUpdateNotification: false }
      })
    ]
  },
  {
    name: 'qwen-code',
    protocol: 'openai-chat',
    program: bin('qwen'),
    call: (command) => ({ call: 'run_shell_command', arguments: { command, is_background: false } }),
    args: (prompt) => ['--yolo', '-p', prompt],
    env: ({ url, key, model }) => ({ OPENAI_API_KEY: key, OPENAI_BASE_URL: `${url}/v1`, OPENAI_MODEL: model }),
    settings: () => [
      '.qwen/settings.json',
      JSON.stringify({
        security: { auth: { selectedType: 'openai' } },
        privacy: { usageStatisticsEnabled: false },
        general: { enableAutoUpdate: false }
      })
    ]
  },
  {
    name: 'opencode',
    protocol: 'openai-chat',
    program: join(modules, `opencode-${machine}/bin/opencode`),
    call: (command) => ({ call: 'bash', arguments: { command, description: 'Writes a file' } }),
    // It fetches the package for plugins of its own.
    wants: /^CONNECT registry\.npmjs\.org:443 /,
    // It puts words with spaces in quotes.
    args: (prompt) => ['run', ...prompt.split(' ')],
    env: () => ({
      OPENCODE_DISABLE_AUTOUPDATE: '1',
      OPENCODE_DISABLE_MODELS_FETCH: '1',
      OPENCODE_PURE: '1',
      OPENCODE_DISABLE_LSP_DOWNLOAD: '1'
    }),
    settings: ({ url, key, model }) => [
      '.config/opencode/opencode.json',
      JSON.stringify({
        provider: {
          sluice: {
            npm: '@ai-sdk/openai-compatible',
            options: { baseURL: `${url}/v1`, apiKey: key },
            models: { [model]: {} }
          }
        },
        model: `sluice/${model}`,
        small_model: `sluice/${model}`,
        enabled_providers: ['sluice'],
        autoupdate: false,
        share: 'disabled'
      })
    ]
  }
]
