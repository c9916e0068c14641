// Tests the built site in Chromium: node docs/.vitepress/browser.mjs SITE [PAGE…]
// With pages, such as guide/rollback.html, it opens only these, in each mode.
//
// Opens pages as a phone and as a desktop, light and dark, and fails for an error on the console, a request to another machine, a
// serious finding of axe, or a page that is wider than a phone. Then it uses the search and the menus with the keyboard.
import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, readdirSync, rmSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { chromium } from 'playwright-core'
import { serve } from './serve.mjs'

const here = dirname(fileURLToPath(import.meta.url))
const site = resolve(process.argv[2] ?? '')
const only = process.argv.slice(3)
const screenshots = resolve(here, '../../bin/docs-screenshots')
const axe = readFileSync(join(here, '../node_modules/axe-core/axe.min.js'), 'utf8')

const sizes = { phone: { width: 390, height: 844 }, desktop: { width: 1280, height: 900 } }
const modes = Object.keys(sizes).flatMap((size) => ['light', 'dark'].map((scheme) => ({ size, scheme })))
// These get a screenshot in each mode. All other pages are opened as a light phone and as a dark desktop.
const shown = ['index.html', 'start.html', 'concepts.html', 'install.html', 'guide/rollback.html', 'rules/rollbacks.html', 'configuration.html', 'metrics.html',
  'reference/kubectl_confrev_undo.html', 'troubleshooting/pods.html', 'design/architecture.html', '404.html']

const counts = { pages: 0, screenshots: 0, serious: 0, minor: 0 }
let passed = 0
const failures = []
const minor = new Map()

function check(name, problems) {
  if (problems === true || problems.length === 0) {
    passed++
    return
  }
  failures.push(name)
  console.log(`FAIL ${name}`)
  for (const problem of problems || ['it is not so']) console.log(`     ${problem}`)
}

// attempt makes a step that cannot be finished a failure, so that the others still happen.
async function attempt(name, step) {
  try {
    await step()
  } catch (error) {
    check(name, [error.message.split('\n')[0]])
  }
}

function browser() {
  const names = [process.env.CHROMIUM, 'chromium', 'chromium-browser', 'google-chrome'].filter(Boolean)
  const find = () => names.flatMap((name) => {
    try {
      return [execFileSync('sh', ['-c', 'command -v "$0"', name], { encoding: 'utf8' }).trim()]
    } catch {
      return []
    }
  })[0]
  if (!find() && process.getuid?.() === 0) {
    try {
      execFileSync('apt-get', ['install', '-y', '--no-install-recommends', 'chromium'], { stdio: ['ignore', 'ignore', 'inherit'] })
    } catch {}
  }
  const found = find()
  if (!found) {
    console.error('docs-test: there is no Chromium: install the package chromium, or name a browser in CHROMIUM')
    process.exit(2)
  }
  return found
}

// open makes a window that notes what goes wrong in it.
async function open(chrome, { size, scheme }) {
  const context = await chrome.newContext({ viewport: sizes[size], colorScheme: scheme, isMobile: size === 'phone', hasTouch: size === 'phone', reducedMotion: 'reduce' })
  const page = await context.newPage()
  let wrong = []
  let missing = false
  page.on('console', (message) => {
    // The page for addresses that do not exist is served with this status.
    if (missing && message.text().includes('404')) return
    if (message.type() === 'error' || message.type() === 'warning') wrong.push(`console: ${message.text()}`)
  })
  page.on('pageerror', (error) => wrong.push(`script: ${error.message}`))
  page.on('request', (request) => {
    const address = new URL(request.url())
    if (!['data:', 'blob:'].includes(address.protocol) && address.host !== new URL(base).host) wrong.push(`asks another machine: ${request.url()}`)
  })
  page.on('response', (response) => {
    if (response.status() >= 400 && !missing) wrong.push(`status ${response.status()}: ${response.url()}`)
  })
  return {
    page,
    context,
    async goto(path) {
      missing = path === '404.html'
      await page.goto(base + (missing ? 'gone.html' : path), { waitUntil: 'load' })
      await page.waitForFunction(() => document.querySelector('#app')?.__vue_app__)
      await page.waitForTimeout(150)
    },
    take() {
      const taken = wrong
      wrong = []
      return taken
    },
  }
}

async function findings(page) {
  await page.evaluate(axe)
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }))
  const serious = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical')
  counts.serious += serious.length
  for (const { id, nodes } of violations.filter((violation) => !serious.includes(violation))) {
    counts.minor++
    minor.set(id, (minor.get(id) ?? 0) + nodes.length)
  }
  return serious.map(({ impact, help, nodes }) =>
    `axe, ${impact}: ${help}: ${nodes.slice(0, 3).map((node) => `${node.target.join(' ')} (${node.any[0]?.message ?? node.html.slice(0, 80)})`).join('; ')}`)
}

async function shoot(page, name) {
  await page.screenshot({ path: join(screenshots, `${name}.png`) })
  counts.screenshots++
}

const overflow = (page) => page.evaluate(() => {
  const { scrollWidth, clientWidth } = document.documentElement
  return scrollWidth > clientWidth ? [`the page is ${scrollWidth} pixels wide, the window ${clientWidth}`] : []
})

// press presses Tab until what has the focus matches, and returns whether it ever did.
async function tabTo(page, selector, limit = 60) {
  for (let i = 0; i < limit; i++) {
    await page.keyboard.press('Tab')
    if (await page.evaluate((selector) => document.activeElement?.closest(selector) !== null, selector)) return true
  }
  return false
}

async function visit(window, mode, path, picture) {
  await window.goto(path)
  const name = `${path} as a ${mode.scheme} ${mode.size}`
  if (picture) await shoot(window.page, `${path.replace(/\.html$/, '').replaceAll('/', '-')}-${mode.size}-${mode.scheme}`)
  check(`${name}: no finding of axe`, await findings(window.page))
  if (mode.size === 'phone') check(`${name}: fits into the window`, await overflow(window.page))
  check(`${name}: no error, and no request to another machine`, window.take())
  counts.pages++
}

async function search(chrome, mode) {
  const window = await open(chrome, mode)
  const { page } = window
  const name = `search as a ${mode.scheme} ${mode.size}`
  await window.goto('index.html')
  check(`${name}: reached with Tab`, await tabTo(page, '.VPNavBarSearch button'))
  await page.keyboard.press('Enter')
  await page.waitForSelector('.VPLocalSearchBox input')
  await page.keyboard.type('KeyLost', { delay: 20 })
  await page.waitForSelector('.VPLocalSearchBox .result')
  await page.waitForTimeout(300)
  await shoot(page, `search-${mode.size}-${mode.scheme}`)
  check(`${name}: no finding of axe`, await findings(page))
  check(`${name}: fits into the window`, await overflow(page))
  await page.keyboard.press('Enter')
  await page.waitForURL((url) => url.pathname !== '/' && url.pathname !== '/index.html', { timeout: 5000 }).catch(() => {})
  const { pathname, hash } = new URL(page.url())
  check(`${name}: finds the entry of a reason`, pathname === '/troubleshooting/permissions.html' && hash === '#keyunreadable-keylost' || [`it led to ${pathname}${hash}`])
  check(`${name}: no error, and no request to another machine`, window.take())
  await window.context.close()
}

async function keyboard(chrome) {
  const window = await open(chrome, { size: 'desktop', scheme: 'light' })
  const { page } = window
  await window.goto('guide/rollback.html')
  await page.keyboard.press('Tab')
  check('the first Tab reaches a link that skips the menus', await page.evaluate(() => document.activeElement?.classList.contains('VPSkipLink')))
  await shoot(page, 'skip-link')
  await page.keyboard.press('Enter')
  check('the link that skips the menus moves the focus to the text', await page.evaluate(() => document.activeElement?.closest('.VPContent') !== null))
  await window.goto('guide/rollback.html')
  check('the menu is reached with Tab', await tabTo(page, '.VPNavBarMenu a'))
  check('the switch to dark mode is reached with Tab', await tabTo(page, '.VPNavBarAppearance button'))
  await page.keyboard.press('Enter')
  check('the switch to dark mode works with the keyboard', await page.evaluate(() => document.documentElement.classList.contains('dark')))
  check('the sidebar is reached with Tab', await tabTo(page, '.VPSidebar a'))
  if (await page.locator('.VPNavBar .versions').count() > 0) await versions(window)
  check('the keyboard causes no error', window.take())
  await window.context.close()
}

async function versions({ page, goto }) {
  await goto('guide/rollback.html')
  check('the menu of versions is reached with Tab', await tabTo(page, '.versions summary'))
  await page.keyboard.press('Enter')
  await page.waitForSelector('.VPNavBar .versions ul')
  await shoot(page, 'versions')
  check('the open menu of versions: no finding of axe', await findings(page))
  const older = page.locator('.VPNavBar .versions a').nth(1)
  const folder = new URL(await older.getAttribute('href'), base).pathname
  await older.focus()
  await page.keyboard.press('Enter')
  await page.waitForURL((url) => url.pathname.startsWith(folder))
  check('an older version has a front page', await page.locator('.VPHero').count() === 1)
  await goto(folder.slice(1) + 'guide/rollback.html')
  await shoot(page, 'old-version')
  check('a page of an older version says so', await page.locator('.old-version').isVisible())
}

// A picture that follows prefers-color-scheme gets the mode from the page.
async function pictures(chrome) {
  for (const [scheme, other] of [['light', 'dark'], ['dark', 'light']]) {
    const window = await open(chrome, { size: 'desktop', scheme })
    await window.goto('concepts.html')
    const mode = () => window.page.evaluate(() => getComputedStyle(document.querySelector('.vp-doc img')).colorScheme)
    check(`pictures are ${scheme} where the system is`, await mode() === scheme)
    await window.page.locator('.VPNavBarAppearance button').click()
    check(`pictures are ${other} where the page is, and the system is ${scheme}`, await mode() === other)
    await shoot(window.page, `pictures-${scheme}-${other}`)
    await window.context.close()
  }
}

async function phoneMenu(chrome) {
  for (const scheme of ['light', 'dark']) {
    const window = await open(chrome, { size: 'phone', scheme })
    const { page } = window
    await window.goto('guide/rollback.html')
    check(`the menu of a ${scheme} phone is reached with Tab`, await tabTo(page, '.VPNavBarHamburger'))
    await page.keyboard.press('Enter')
    await page.waitForSelector('.VPNavScreen a')
    await page.waitForTimeout(400)
    await shoot(page, `menu-phone-${scheme}`)
    check(`the menu of a ${scheme} phone: no finding of axe`, await findings(page))
    await window.goto('guide/rollback.html')
    await page.locator('.VPLocalNav .menu').click()
    await page.waitForTimeout(600)
    await shoot(page, `sidebar-phone-${scheme}`)
    check(`the sidebar of a ${scheme} phone: no finding of axe`, await findings(page))
    check(`the menus of a ${scheme} phone cause no error`, window.take())
    await window.context.close()
  }
}

// frontPage returns how many bytes a first visit transfers, and how long it takes.
async function frontPage(chrome) {
  const context = await chrome.newContext({ viewport: sizes.desktop })
  const page = await context.newPage()
  const session = await context.newCDPSession(page)
  await session.send('Network.enable')
  const facts = { bytes: 0, requests: 0 }
  session.on('Network.loadingFinished', ({ encodedDataLength }) => {
    facts.bytes += encodedDataLength
    facts.requests++
  })
  await page.goto(base, { waitUntil: 'load' })
  facts.load = await page.evaluate(async () => {
    await new Promise((resolve) => setTimeout(resolve, 50))
    return Math.round(performance.getEntriesByType('navigation')[0].loadEventEnd)
  })
  facts.untilLoad = facts.bytes
  await page.waitForLoadState('networkidle')
  await context.close()
  return facts
}

const started = Date.now()
rmSync(screenshots, { recursive: true, force: true })
mkdirSync(screenshots, { recursive: true })
const all = readdirSync(site, { recursive: true }).filter((path) => path.endsWith('.html'))
const folders = new Set(all.filter((path) => path.endsWith('/404.html')).map((path) => dirname(path) + '/'))
const current = all.filter((path) => ![...folders].some((folder) => path.startsWith(folder))).sort()
const missing = shown.filter((path) => !current.includes(path))
if (missing.length > 0) {
  console.error(`docs-test: the site has no ${missing.join(', ')}: build it with \`make docs\``)
  process.exit(2)
}
const server = await serve(site)
const base = `http://127.0.0.1:${server.address().port}/`
const chrome = await chromium.launch({
  executablePath: browser(),
  args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
})
try {
  const facts = await frontPage(chrome)
  await Promise.all(modes.map(async (mode) => {
    const window = await open(chrome, mode)
    const once = mode.size === 'phone' && mode.scheme === 'light' || mode.size === 'desktop' && mode.scheme === 'dark'
    for (const path of only.length > 0 ? only : once ? current : shown) {
      await attempt(`${path} as a ${mode.scheme} ${mode.size}`, () => visit(window, mode, path, shown.includes(path)))
    }
    await window.context.close()
    await attempt(`search as a ${mode.scheme} ${mode.size}`, () => search(chrome, mode))
  }))
  await attempt('keyboard', () => keyboard(chrome))
  await attempt('pictures', () => pictures(chrome))
  await attempt('menus of a phone', () => phoneMenu(chrome))
  console.log(`front page: ${facts.bytes} bytes in ${facts.requests} requests with all that it fetches in advance, ${facts.untilLoad} bytes until it was loaded after ${facts.load} ms`)
} finally {
  await chrome.close()
  server.close()
}
for (const [id, nodes] of minor) console.log(`axe, moderate or minor: ${id} (${nodes} places)`)
console.log(`${current.length} pages, opened ${counts.pages} times; ${counts.screenshots} screenshots in bin/docs-screenshots; ` +
  `axe found ${counts.serious} serious or critical and ${counts.minor} lesser problems; ${Math.round((Date.now() - started) / 1000)} s`)
console.log(`${passed} passed, ${failures.length} failed`)
process.exit(failures.length > 0 ? 1 : 0)
