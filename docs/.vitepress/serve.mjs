// Serves the built site on this machine, as a web server does: compressed, and with a page for addresses that do not exist.
//
//	node docs/.vitepress/serve.mjs SITE
import { createReadStream, existsSync, statSync } from 'node:fs'
import { createServer } from 'node:http'
import { extname, join, normalize, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createGzip } from 'node:zlib'

const types = {
  '.html': 'text/html; charset=utf-8', '.js': 'text/javascript; charset=utf-8', '.css': 'text/css; charset=utf-8', '.json': 'application/json',
  '.svg': 'image/svg+xml', '.png': 'image/png', '.woff2': 'font/woff2', '.xml': 'application/xml', '.txt': 'text/plain; charset=utf-8',
}
const compressed = new Set(['.html', '.js', '.css', '.json', '.svg', '.xml', '.txt'])

// serve returns a server on a free port of 127.0.0.1.
export function serve(site) {
  const server = createServer((request, response) => {
    const path = normalize(decodeURIComponent(new URL(request.url, 'http://127.0.0.1').pathname))
    let file = join(site, path)
    if (existsSync(file) && statSync(file).isDirectory()) file = join(file, 'index.html')
    let status = 200
    if (!file.startsWith(site) || !existsSync(file)) {
      status = 404
      file = join(site, '404.html')
    }
    const extension = extname(file)
    const headers = { 'Content-Type': types[extension] ?? 'application/octet-stream' }
    if (compressed.has(extension)) headers['Content-Encoding'] = 'gzip'
    response.writeHead(status, headers)
    const stream = createReadStream(file)
    if (compressed.has(extension)) stream.pipe(createGzip()).pipe(response)
    else stream.pipe(response)
  })
  return new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(server)))
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const server = await serve(resolve(process.argv[2]))
  console.log(`http://127.0.0.1:${server.address().port}/`)
}
