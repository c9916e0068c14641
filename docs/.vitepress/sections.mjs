// The sections of the site, in the order of its menu. The sidebar lists each page under its first heading.
//
// A page is named by its path below docs. A path that does not exist is left out, so that a section can list pages of other
// versions. `folder/*` stands for the pages of a folder that no section names, in the order in which `orderOf` links to them.
// Every page has to be in exactly one section, or the build fails: see pages.mjs.
export const sections = [
  {
    text: 'Start',
    pages: ['start.md', 'install.md', 'tutorial.md', 'concepts.md'],
  },
  {
    text: 'Tasks',
    pages: [
      'guide/rollback.md', 'guide/safe-changes.md', 'guide/canary.md', 'guide/rotate.md', 'guide/adopt.md', 'guide/gitops.md',
      'guide/argocd.md', 'guide/flux.md', 'guide/helm.md', 'guide/kustomize.md', 'guide/kubectl.md', 'guide/*',
      'audit.md', 'compat.md',
    ],
  },
  {
    text: 'Incidents',
    pages: ['troubleshooting.md', 'troubleshooting/*'],
    orderOf: 'troubleshooting.md',
  },
  {
    text: 'Reference',
    pages: ['rules/annotations.md', 'configuration.md', 'cli.md', 'cli-output.md', 'events.md', 'metrics.md', 'alerts.md', 'components.md', 'support.md'],
    links: [{ text: 'Chart values', link: 'charts/confrev/README.md' }],
    groups: [
      { text: 'Commands and flags', pages: ['reference/README.md', 'reference/*'], orderOf: 'reference/README.md' },
    ],
  },
  {
    text: 'Rules',
    pages: ['reconcile.md', 'rules/*'],
    orderOf: 'reconcile.md',
  },
  {
    text: 'Design',
    pages: ['security.md', 'reliability.md', 'design/*', 'style.md'],
  },
  {
    text: 'Questions',
    pages: ['faq.md', 'comparison.md'],
  },
]

// Pages that several headings could name, or whose heading is too general for a list.
export const titles = {
  'rules/annotations.md': 'Annotations and labels',
  'reference/README.md': 'All commands',
  'cli.md': 'The plugin, kubectl confrev',
  'reconcile.md': 'All rules',
  'troubleshooting.md': 'First look',
  'troubleshooting/revisions.md': 'Revisions that stay or cannot be changed',
}
