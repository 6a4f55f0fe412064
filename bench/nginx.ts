// Starts nginx as the gateway to compare with: one worker, proxy_pass, connections kept alive on both sides.
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { Child } from './child.ts'
import type { Contestant } from './contestant.ts'

/** The path of nginx; undefined when it is not installed. */
export const nginx = find()

/** The version that the program itself reports, such as `nginx/1.22.1`. */
export function nginxVersion(): string {
  // nginx writes its version to stderr.
  return /nginx\/\S+/.exec(spawnSync(nginx!, ['-v']).stderr.toString())?.[0] ?? 'nginx'
}

/**
 * Starts nginx in front of the upstream at that port. Streams are passed on unbuffered. `directory`: an existing folder
 * for its files.
 */
export async function startNginx(upstream: number, directory: string, streaming: boolean): Promise<Contestant> {
  const port = await freePort()
  const prefix = join(directory, `nginx-${port}`)
  mkdirSync(prefix)
  const file = join(prefix, 'nginx.conf')
  writeFileSync(file, configuration(upstream, port, streaming))
  // Without a master process, the one process is the worker, so its CPU time is all there is.
  const child = Child.program([nginx!, '-p', prefix, '-c', file, '-e', join(prefix, 'error.log')], 'gateway')
  for (let tries = 0; !(await accepts(port)); tries++) {
    if (tries > 100) throw new Error(`nginx does not listen after 5 s; see ${prefix}/error.log`)
    await delay(50)
  }
  return { name: 'nginx', pid: child.pid, port, collect: async () => undefined, stop: () => child.stop() }
}

function configuration(upstream: number, port: number, streaming: boolean): string {
  return `daemon off;
master_process off;
worker_processes 1;
pid nginx.pid;
error_log error.log error;
worker_rlimit_nofile 65536;
events { worker_connections 32768; }
http {
  access_log off;
  client_body_temp_path body;
  proxy_temp_path proxy;
  fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi;
  scgi_temp_path scgi;
  keepalive_timeout 600s;
  keepalive_requests 1000000000;
  map $http_upgrade $connection_upgrade {
    default upgrade;
    '' '';
  }
  upstream bench {
    server 127.0.0.1:${upstream};
    keepalive 4096;
    keepalive_requests 1000000000;
    keepalive_timeout 600s;
  }
  server {
    listen 127.0.0.1:${port} backlog=4096;
    location / {
      proxy_pass http://bench;
      proxy_http_version 1.1;
      proxy_set_header Upgrade $http_upgrade;
      proxy_set_header Connection $connection_upgrade;
      proxy_buffering ${streaming ? 'off' : 'on'};
      proxy_read_timeout 600s;
      # Whole bodies, in memory: a gateway that may have to try another upstream keeps them too.
      proxy_request_buffering on;
      client_max_body_size 16m;
      client_body_buffer_size 16m;
    }
  }
}
`
}

function find(): string | undefined {
  try {
    return execFileSync('which', ['nginx'], { stdio: ['ignore', 'pipe', 'ignore'] })
      .toString()
      .trim()
  } catch {
    return existsSync('/usr/sbin/nginx') ? '/usr/sbin/nginx' : undefined
  }
}

/** nginx cannot choose a free port by itself. */
async function freePort(): Promise<number> {
  const server = createServer()
  const { promise, resolve } = Promise.withResolvers<void>()
  server.listen(0, '127.0.0.1', resolve)
  await promise
  const { port } = server.address() as AddressInfo
  server.close()
  return port
}

function accepts(port: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const socket = connect(port, '127.0.0.1', () => resolve(true))
  socket.on('error', () => resolve(false))
  return promise.finally(() => socket.destroy())
}
