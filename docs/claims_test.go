package docs_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// exempt are the pages and sections that need no link to a rule, by why.
var exempt = map[string][]string{
	"they are the rules": {"docs/reconcile.md", "docs/rules/"},
	"they are made from the commands' help texts, or say how confrev is built, tested and written": {
		"docs/design/", "docs/reference/", "docs/reliability.md", "docs/style.md", "docs/support.md",
	},
	"they say how to build, install or try something": {
		"README.md## Try it without a cluster", "docs/cli.md## Install", "docs/guide/flux.md## Install confrev with Flux", "docs/install.md## Images",
		"docs/install.md## Mistakes in an installation", "docs/install.md## Releases", "docs/start.md## Without a cluster",
		"docs/guide/kustomize.md# beginning", "docs/start.md# beginning", "docs/tutorial.md# beginning", "docs/tutorial.md## Step 1: A cluster with confrev",
	},
	"they only lead to other pages": {
		"docs/faq.md## How well is it tested?", "docs/guide/rollback.md## Credentials", "docs/guide/rotate.md## When it does not work",
		"docs/index.md## Where to continue", "docs/start.md## Next", "docs/troubleshooting.md## Index", "docs/tutorial.md## Next",
	},
	"they are about figures, events, metrics and logs": {
		"docs/alerts.md## ConfrevErrors", "docs/events.md# beginning", "docs/comparison.md## Figures", "docs/metrics.md## Alerts", "docs/metrics.md## Dashboard",
	},
	"they are about the plugin's own flags, output and input": {
		"docs/audit.md## In CI", "docs/cli-output.md## Cost", "docs/cli-output.md## Output for programs",
		"docs/guide/attach-job.md## Migrating from configmap-attacher", "docs/guide/k9s.md# beginning", "docs/guide/render.md## Flags",
		"docs/troubleshooting/plugin.md## kubectl confrev attach waits", "docs/troubleshooting/plugin.md## kubectl reads this differently from other programs",
	},
}

// What a page of docs claims about confrev's behavior links to its rule: every section does, unless it makes no such claim.
func TestClaimsLinkToRules(t *testing.T) {
	rule := regexp.MustCompile(`\]\([^)\s]*(rules/|reconcile\.md)[^)]*\)`)
	needless := map[string]bool{}
	for _, list := range exempt {
		for _, what := range list {
			needless[what] = true
		}
	}
	checked := 0
	for _, path := range slices.DeleteFunc(markdown(t), func(path string) bool { return path != "README.md" && !strings.HasPrefix(path, "docs/") }) {
		for i, section := range strings.Split(withoutCode(read(t, path)), "\n## ") {
			title, _, _ := strings.Cut(section, "\n")
			name := path + "## " + title
			if i == 0 {
				if name = path + "# beginning"; strings.Count(strings.TrimSpace(section), "\n\n") < 2 {
					// Only what the page is, and what it is for.
					continue
				}
			}
			linked := rule.MatchString(section)
			checked++
			excused := false
			for what := range needless {
				if strings.HasPrefix(name, what) {
					excused = true
					// A folder is exempt as a whole; a section must need it.
					needless[what] = needless[what] && linked && strings.Contains(what, "# ")
				}
			}
			if !linked && !excused {
				t.Errorf("%s, section %q: link what it claims to a rule (docs/reconcile.md), or say in this test why it needs no link", path, title)
			}
		}
	}
	if checked < 200 {
		t.Errorf("found only %d sections: the test looks in the wrong place", checked)
	}
	for what, is := range needless {
		if is {
			t.Errorf("%s is exempt without need", what)
		}
	}
}
