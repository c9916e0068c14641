import { dirname, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitepress'
import { accessible } from './accessible.mjs'
import { diagrams, links, pictures, slug } from './markdown.mjs'
import { navigation } from './pages.mjs'
import { sections, titles } from './sections.mjs'

const docs = resolve(dirname(fileURLToPath(import.meta.url)), '..')
const repository = 'https://github.com/confrev/confrev'

// What build.mjs says about the version that it builds.
const { base = '/', name = 'main', ref = 'main', old = false, versions = [] } = JSON.parse(process.env.CONFREV_DOCS ?? '{}')
const outside = (path) => `${repository}/blob/${ref}/${path}`
const { nav, sidebar } = navigation(docs, { sections, titles, outside, old })
const description = 'Configuration changes that roll out, and roll back, exactly like an image change'

export default defineConfig({
  lang: 'en-US',
  title: 'confrev',
  description,
  base,
  cacheDir: resolve(docs, 'node_modules/.cache/vitepress'),
  rewrites: { 'reference/README.md': 'reference/index.md' },
  ignoreDeadLinks: false,
  // Search engines should find the newest version.
  sitemap: old ? undefined : { hostname: 'https://confrev.io' },
  head: [
    ['link', { rel: 'icon', type: 'image/svg+xml', href: `${base}icon.svg` }],
    ...(old ? [['meta', { name: 'robots', content: 'noindex' }]] : []),
  ],
  markdown: {
    anchor: { slugify: slug },
    // Braces in the pages are text, not attributes.
    attrs: { disable: true },
    image: { lazyLoading: true },
    theme: { light: 'github-light-high-contrast', dark: 'github-dark-high-contrast' },
    config(md) {
      md.use(links, { outside }).use(pictures).use(diagrams)
    },
  },
  vite: {
    plugins: [accessible()],
    publicDir: resolve(docs, '.vitepress/public'),
    // Pictures stay files, also small ones.
    build: { assetsInlineLimit: 0 },
  },
  themeConfig: {
    logo: { src: '/icon.svg', alt: '' },
    nav: [...nav, ...(versions.length > 1 ? [{ component: 'VersionMenu' }] : [])],
    sidebar,
    outline: [2, 3],
    search: {
      provider: 'local',
      options: {
        // Words of the pages are often joined by dots, slashes or hyphens: confrev.io/restart-on.
        miniSearch: { searchOptions: { boost: { title: 4, titles: 2, text: 1 }, prefix: true, fuzzy: 0.15 } },
      },
    },
    socialLinks: [{ icon: 'github', link: repository, ariaLabel: 'Repository on GitHub' }],
    editLink: old ? undefined : { pattern: `${repository}/edit/main/docs/:path`, text: 'Edit this page' },
    externalLinkIcon: true,
    notFound: { quote: 'There is no such page. Try the search, or the menu.', linkText: 'Go to the front page', linkLabel: 'Go to the front page' },
    version: { name, old, versions },
  },
})
