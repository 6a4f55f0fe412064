// Reads and checks the PEM files with certificates and private keys that gateway.yaml names.
import { createPrivateKey, X509Certificate } from 'node:crypto'
import type { KeyObject } from 'node:crypto'
import { resolve } from 'node:path'
import { createSecureContext } from 'node:tls'
import type { Identity } from '../../core/catalogue/catalogue.ts'
import type { Files } from '../files/files.ts'
import type { Path, Report } from '../report.ts'

const block = /-----BEGIN CERTIFICATE-----[^]*?-----END CERTIFICATE-----/g

/**
 * The certificates of one reading of a configuration. Faults of a file are reported at the place that names it; no
 * message shows any part of a key.
 */
export class Certificates {
  readonly #files: Files
  readonly #report: Report

  constructor(files: Files, report: Report) {
    this.#files = files
    this.#report = report
  }

  /** Returns the text of a file with certificates; undefined when there is a fault. */
  authorities(path: Path, name: string): string | undefined {
    const file = this.#file(path, name)
    const text = this.#text(path, file)
    return text !== undefined && this.#parsed(path, file, text) ? text : undefined
  }

  /**
   * Returns a certificate chain with its key, from two files; undefined when there is a fault. `path` is the place of
   * the section with `cert` and `key`.
   */
  identity(path: Path, names: Identity): Identity | undefined {
    const [ofCert, ofKey] = [
      [...path, 'cert'],
      [...path, 'key']
    ] as const
    const [certFile, keyFile] = [this.#file(ofCert, names.cert), this.#file(ofKey, names.key)]
    const cert = this.#text(ofCert, certFile)
    const key = this.#text(ofKey, keyFile)
    const chain = cert === undefined ? undefined : this.#parsed(ofCert, certFile, cert)
    const secret = key === undefined ? undefined : this.#key(ofKey, keyFile, key)
    if (cert === undefined || key === undefined || !chain || !secret) return undefined
    if (!chain[0]!.checkPrivateKey(secret)) {
      this.#report.value(ofKey, `${keyFile} is the key of another certificate than the first of ${certFile}`)
      return undefined
    }
    try {
      createSecureContext({ cert, key })
    } catch (error) {
      this.#report.value(ofCert, `${certFile} cannot be used: ${(error as Error).message}`)
      return undefined
    }
    return { cert, key }
  }

  /** The path of a file that is named at `path`. */
  #file(path: Path, name: string): string {
    return resolve(this.#report.folder(path), name)
  }

  #text(path: Path, file: string): string | undefined {
    const { bytes, fault } = this.#files.read(file)
    if (bytes) return bytes.toString('latin1')
    this.#report.value(path, `${file}: ${fault}`)
    return undefined
  }

  #parsed(path: Path, file: string, text: string): X509Certificate[] | undefined {
    const blocks = text.match(block)
    if (!blocks) {
      this.#report.value(path, `${file} holds no certificate in PEM (-----BEGIN CERTIFICATE-----)`)
      return undefined
    }
    try {
      return blocks.map((one) => new X509Certificate(one))
    } catch {
      this.#report.value(path, `${file} holds a certificate that is damaged`)
      return undefined
    }
  }

  #key(path: Path, file: string, text: string): KeyObject | undefined {
    try {
      return createPrivateKey(text)
    } catch {
      const words = /-----BEGIN ENCRYPTED|Proc-Type: 4,ENCRYPTED/.test(text)
        ? 'is locked with a passphrase, which cannot be given: unlock it (openssl pkey)'
        : 'holds no private key in PEM'
      this.#report.value(path, `${file} ${words}`)
      return undefined
    }
  }
}
