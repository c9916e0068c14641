// Builds the site: node docs/.vitepress/build.mjs OUTPUT [VERSION…]
//
// The pages of the current tree are built into OUTPUT, and those of each version, a tag or another revision of git, into
// OUTPUT/VERSION. All of them get the theme and the menu of the current tree. Versions are listed from the newest to the oldest.
import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, rmSync, symlinkSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { listPages } from './pages.mjs'

const docs = resolve(dirname(fileURLToPath(import.meta.url)), '..')
const vitepress = join(docs, 'node_modules/vitepress/bin/vitepress.js')
const [output, ...tags] = process.argv.slice(2)
if (!output) fail('usage: build.mjs OUTPUT [VERSION…]')

function fail(message) {
  console.error('docs: ' + message)
  process.exit(1)
}

function git(...args) {
  return execFileSync('git', args, { cwd: docs, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim()
}

// The current tree is named by its tag, if it has one.
function current() {
  try {
    return git('describe', '--tags', '--exact-match')
  } catch {
    return 'main'
  }
}

// checkout puts the pages of a version into a folder, with the theme of the current tree.
function checkout(version, folder) {
  let archive
  try {
    archive = execFileSync('git', ['archive', '--format=tar', `${version}^{commit}`, '--', '.'], { cwd: docs, maxBuffer: 1 << 28, stdio: ['ignore', 'pipe', 'ignore'] })
  } catch {
    fail(`git knows no version ${version}, or it has no folder docs`)
  }
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  execFileSync('tar', ['-x', '-C', folder], { input: archive })
  rmSync(join(folder, '.vitepress'), { recursive: true, force: true })
  cpSync(join(docs, '.vitepress'), join(folder, '.vitepress'), { recursive: true, verbatimSymlinks: true })
  symlinkSync(join(docs, 'node_modules'), join(folder, 'node_modules'))
  if (!existsSync(join(folder, 'index.md'))) fail(`${version} has no docs/index.md: the site cannot have versions from before it`)
}

function build(folder, out, facts) {
  const started = Date.now()
  execFileSync(process.execPath, [vitepress, 'build', folder, '--outDir', out, '--logLevel', 'warn'], {
    stdio: 'inherit',
    env: { ...process.env, CONFREV_DOCS: JSON.stringify(facts) },
  })
  console.log(`docs: ${facts.name} has ${listPages(folder).length} pages, built in ${((Date.now() - started) / 1000).toFixed(1)} s`)
}

const name = current()
const older = tags.filter((tag) => tag !== name)
const wrong = older.find((tag) => !/^[\w.~-]+$/.test(tag))
if (wrong) fail(`${wrong} cannot be the name of a folder`)
const versions = [{ name, base: '/' }, ...older.map((tag) => ({ name: tag, base: `/${tag}/` }))]
const ref = name === 'main' ? 'main' : name
try {
  build(docs, resolve(output), { name, ref, base: '/', versions })
  for (const { name, base } of versions.slice(1)) {
    const folder = resolve(output, '..', 'docs-versions', name)
    checkout(name, folder)
    build(folder, join(resolve(output), name), { name, ref: name, base, old: true, versions })
  }
} catch (error) {
  fail(error.message)
}
