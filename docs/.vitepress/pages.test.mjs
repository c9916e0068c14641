import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { slug } from './markdown.mjs'
import { navigation } from './pages.mjs'

// site makes pages with a heading each, and returns what the navigation of these sections is.
function site(t, pages, sections, options = {}) {
  const docs = mkdtempSync(join(tmpdir(), 'confrev-docs-'))
  t.after(() => rmSync(docs, { recursive: true }))
  for (const [name, text] of Object.entries({ 'index.md': '', 'node_modules/x/README.md': '', ...pages })) {
    mkdirSync(dirname(join(docs, name)), { recursive: true })
    writeFileSync(join(docs, name), text)
  }
  return navigation(docs, { sections, titles: {}, outside: (path) => `https://example.com/${path}`, ...options })
}

const rules = { text: 'Rules', pages: ['rules.md', 'rules/*'], orderOf: 'rules.md' }

test('pages are listed under their headings, in the order of the index', (t) => {
  const { nav, sidebar, count } = site(t, {
    'rules.md': '# The `rules`\n[b](rules/b.md) [a](rules/a.md)', 'rules/a.md': '# A', 'rules/b.md': '# B', 'rules/README.md': '# All',
  }, [rules])
  assert.equal(count, 4)
  assert.deepEqual(sidebar[0].items, [
    { text: 'The rules', link: '/rules.html' }, { text: 'B', link: '/rules/b.html' }, { text: 'A', link: '/rules/a.html' }, { text: 'All', link: '/rules/' },
  ])
  assert.deepEqual(nav, [{ text: 'Rules', link: '/rules.html', activeMatch: '^/(?:rules\\.html|rules/b\\.html|rules/a\\.html|rules/)$' }])
})

test('a page that no section lists is an error, except in an older version', (t) => {
  const pages = { 'rules.md': '# Rules', 'new.md': '# New' }
  assert.throws(() => site(t, pages, [rules]), /docs\/new\.md is in no section/)
  assert.deepEqual(site(t, pages, [rules], { old: true }).sidebar[1].items, [{ text: 'New', link: '/new.html' }])
})

test('a page in two sections, or without a heading, is an error', (t) => {
  assert.throws(() => site(t, { 'rules.md': '# Rules' }, [rules, { ...rules, text: 'More' }]), /docs\/rules\.md is in two sections, Rules and More/)
  assert.throws(() => site(t, { 'rules.md': 'text' }, [rules]), /docs\/rules\.md has no heading/)
})

test('anchors are those of code hosts', () => {
  assert.equal(slug('21. A rollback and a deploy are different things'), '21-a-rollback-and-a-deploy-are-different-things')
  assert.equal(slug('Pods are refused: "confrev.io/pins was not applied"'), 'pods-are-refused-confreviopins-was-not-applied')
})
