// Package docs_test holds the documentation to the code: what the code reads, writes and says is documented, and what the
// documentation points at exists.
package docs_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"confrev.io/confrev/internal/audit"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/operator"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/workload"
)

const root = ".."

func TestKeysAreDocumented(t *testing.T) {
	var docs strings.Builder
	for _, path := range markdown(t) {
		docs.WriteString(read(t, path))
	}
	consts := constants(t, "internal/keys/keys.go")
	prefix := consts["Prefix"]
	for name, key := range consts {
		if name == "Prefix" || !strings.Contains(key, "/") {
			continue
		}
		if !strings.Contains(docs.String(), "`"+key+"`") {
			t.Errorf("no page mentions `%s` (keys.%s)", key, name)
		}
	}
	if prefix == "" || len(consts) < 5 {
		t.Errorf("found only %v in internal/keys: the test reads it wrongly", consts)
	}
}

// A key that has no place would be reported as unknown wherever a user writes it.
func TestEveryKeyHasAPlace(t *testing.T) {
	for name, key := range constants(t, "internal/keys/keys.go") {
		// The Secret of the webhooks' authority is no source.
		if !strings.HasPrefix(key, "confrev.io/") || name == "Prefix" || name == "DistrustBefore" {
			continue
		}
		written := map[string]string{key: ""}
		_, ofSource := optin.Compat{}.Describe(pin.Source{Kind: pin.ConfigMap, Name: "app"}, &metav1.ObjectMeta{Annotations: written})
		places := 0
		for _, problems := range [][]notice.Notice{
			optin.Read(optin.Metadata{Annotations: written}, optin.Defaults{}).Problems,
			optin.Read(optin.Metadata{NamespaceAnnotations: written}, optin.Defaults{}).Problems,
			optin.Read(optin.Metadata{NamespaceLabels: written}, optin.Defaults{}).Problems, ofSource,
		} {
			if !slices.ContainsFunc(problems, func(n notice.Notice) bool { return n.Reason == notice.UnknownAnnotation }) {
				places++
			}
		}
		if places == 0 {
			t.Errorf("keys.%s has no effect anywhere: add it to internal/optin/unknown.go", name)
		}
	}
}

func TestMetricsAreDocumented(t *testing.T) {
	var source string
	for _, path := range files(t, "internal", "metrics.go") {
		source += read(t, path)
	}
	names := regexp.MustCompile(`(?:Name:\s+|NewDesc\()"([a-z_]+)"`).FindAllStringSubmatch(source, -1)
	var inCode []string
	for _, name := range names {
		inCode = append(inCode, name[1])
	}
	same(t, "docs/metrics.md", inCode, firstColumn(t, "docs/metrics.md", "# Metrics"))
}

func TestEventsAreDocumented(t *testing.T) {
	var inCode []string
	for _, reason := range constants(t, "internal/notice/reasons.go") {
		inCode = append(inCode, reason)
	}
	// So do problems with what users wrote.
	for name, reason := range constants(t, "internal/optin/optin.go") {
		if strings.HasPrefix(name, "Invalid") {
			inCode = append(inCode, reason)
		}
	}
	// Errors that only the user can fix become events too.
	terminal := regexp.MustCompile(`(?:notice\.Terminal\(|is the reason of a TerminalError.*\nconst \w+ = )"(\w+)"`)
	for _, path := range files(t, "internal", ".go") {
		for _, match := range terminal.FindAllStringSubmatch(read(t, path), -1) {
			if !slices.Contains(inCode, match[1]) {
				inCode = append(inCode, match[1])
			}
		}
	}
	same(t, "docs/events.md", inCode, firstColumn(t, "docs/events.md", "# Events"))
}

func TestReasonsOfDoctorAreDocumented(t *testing.T) {
	var inCode []string
	reason := regexp.MustCompile(`(?:addFinding|demand)\((?:ctx, \w+, )?\w+, "(\w+)"`)
	for _, path := range files(t, "internal/view", ".go") {
		for _, match := range reason.FindAllStringSubmatch(read(t, path), -1) {
			if !slices.Contains(inCode, match[1]) {
				inCode = append(inCode, match[1])
			}
		}
	}
	same(t, "docs/cli-output.md", inCode, firstColumn(t, "docs/cli-output.md", "## What `doctor` finds"))
}

func TestReasonsOfTheAuditAreDocumented(t *testing.T) {
	var inCode []string
	for _, reason := range audit.Reasons {
		inCode = append(inCode, string(reason))
	}
	same(t, "docs/audit.md", inCode, firstColumn(t, "docs/audit.md", "## Findings"))
	if want := fmt.Sprintf("(`--margin`, %.0f minutes)", audit.DefaultMargin.Minutes()); !strings.Contains(read(t, "docs/rules/audit.md"), want) {
		t.Errorf("docs/rules/audit.md does not say %q", want)
	}
}

// Other tools' annotations that are read have a row each, for the constants and for those made of a kind and a suffix.
func TestAnnotationsOfOtherToolsAreDocumented(t *testing.T) {
	var inCode, suffixes []string
	for name, value := range constants(t, "internal/optin/compat.go") {
		switch {
		case strings.HasPrefix(name, "reloaderKind"):
			suffixes = append(suffixes, value)
		case strings.Contains(value, "/"):
			inCode = append(inCode, value)
		}
	}
	for _, suffix := range suffixes {
		for _, kind := range pin.Kinds {
			inCode = append(inCode, string(kind)+suffix)
		}
	}
	if len(inCode) < 7+3*len(pin.Kinds) {
		t.Errorf("found only %v in internal/optin: the test reads it wrongly", inCode)
	}
	rows := append(firstColumn(t, "docs/compat.md", "## Reloader"), firstColumn(t, "docs/compat.md", "## Wave")...)
	for _, annotation := range inCode {
		if !slices.Contains(rows, annotation) {
			t.Errorf("docs/compat.md lacks a row of `%s`", annotation)
		}
	}
}

// The example of a file for --config is one.
func TestExampleOfConfiguredKindsIsValid(t *testing.T) {
	_, after, _ := strings.Cut(section(t, "docs/rules/kinds.md", "## Configured kinds"), "```yaml\n")
	example, _, found := strings.Cut(after, "```")
	kinds, err := workload.ParseConfig([]byte(example))
	if err != nil || !found || len(kinds) != 1 {
		t.Errorf("the example in docs/rules/kinds.md has %d kinds: %v", len(kinds), err)
	}
}

func TestFlagsAreDocumentedWithTheirDefaults(t *testing.T) {
	t.Setenv("POD_NAMESPACE", "")
	var inCode []string
	rows := section(t, "docs/configuration.md", "## Flags")
	flags := operator.Command().Flags()
	for _, match := range regexp.MustCompile(`(?m)^ +(?:-\w, )?--([a-z-]+)`).FindAllStringSubmatch(flags.FlagUsages(), -1) {
		flag := flags.Lookup(match[1])
		inCode = append(inCode, "--"+flag.Name)
		value := "none"
		if flag.DefValue != "" {
			value = "`" + flag.DefValue + "`"
		}
		if row := "| `--" + flag.Name + "` | " + value + " |"; !strings.Contains(rows, row) {
			t.Errorf("docs/configuration.md has no row %q", row)
		}
	}
	same(t, "docs/configuration.md", inCode, firstColumn(t, "docs/configuration.md", "## Flags"))
}

// Every value is on the chart's page, which `make verify` compares with values.yaml, and those that other pages explain are values.
func TestChartValuesAreDocumented(t *testing.T) {
	rows := section(t, "charts/confrev/README.md", "## Values")
	known := map[string]bool{}
	for _, match := range regexp.MustCompile(`(?m)^(\w+):`).FindAllStringSubmatch(read(t, "charts/confrev/values.yaml"), -1) {
		known[match[1]] = true
		if !strings.Contains(rows, "| `"+match[1]+"`") && !strings.Contains(rows, "| `"+match[1]+".") {
			t.Errorf("charts/confrev/README.md does not mention value %q", match[1])
		}
	}
	for _, row := range firstColumn(t, "docs/configuration.md", "## Chart values") {
		if value, _, _ := strings.Cut(row, "."); !known[value] {
			t.Errorf("docs/configuration.md explains %q, which is not a value", row)
		}
	}
}

// A rule is on exactly one page, and the index has a row of each, in order, with its title and a link to it.
func TestEveryRuleIsInTheIndex(t *testing.T) {
	index := section(t, "docs/reconcile.md", "## Index of rules")
	rows := regexp.MustCompile(`(?m)^\| (\d+) \| \[(.+)\]\((.+)#(.+)\) \| .+ \|$`).FindAllStringSubmatch(index, -1)
	rules := rulePages(t)
	if len(rows) != strings.Count(index, "\n| ")-1 || len(rows) != len(rules) {
		t.Errorf("the index has %d well-formed rows, the pages have %d rules", len(rows), len(rules))
	}
	for i, row := range rows {
		number, title, page, anchor := row[1], row[2], filepath.Join("docs", row[3]), row[4]
		if number != strconv.Itoa(i+1) {
			t.Errorf("the index is not in order: rule %s is in place %d", number, i+1)
		}
		if pages := rules[number]; len(pages) != 1 || pages[0] != page {
			t.Errorf("rule %s is on %v, the index says %s", number, pages, page)
		} else if text := read(t, page); !strings.Contains(text, "\n## "+number+". "+title+"\n") || !slices.Contains(anchors("# "+number+". "+title), anchor) {
			t.Errorf("%s has rule %s under another title than the index, which says %q", page, number, title)
		}
	}
}

// rulePages returns the pages on which each rule is a heading, by its number.
func rulePages(t *testing.T) map[string][]string {
	t.Helper()
	rules := map[string][]string{}
	for _, path := range files(t, "docs", ".md") {
		for _, rule := range regexp.MustCompile(`(?m)^#+ (\d+)\. `).FindAllStringSubmatch(withoutCode(read(t, path)), -1) {
			rules[rule[1]] = append(rules[rule[1]], path)
		}
	}
	return rules
}

// The code cites rules by number.
func TestCitedRulesExist(t *testing.T) {
	exists := rulePages(t)
	cited := regexp.MustCompile(`(?i)\brules? (\d+)((?:(?:, | and | to )\d+)*)`)
	number := regexp.MustCompile(`\d+`)
	paths := append(files(t, ".", ".go"), files(t, "charts", "")...)
	for _, path := range append(paths, markdown(t)...) {
		for _, match := range cited.FindAllString(read(t, path), -1) {
			for _, n := range number.FindAllString(match, -1) {
				if len(exists[n]) == 0 {
					t.Errorf("%s cites %q, which no page of docs has", path, match)
				}
			}
		}
	}
}

func TestLinksResolve(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for _, path := range markdown(t) {
		for _, match := range link.FindAllStringSubmatch(withoutCode(read(t, path)), -1) {
			target, anchor, _ := strings.Cut(match[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			to := path
			if target != "" {
				to = filepath.Join(filepath.Dir(path), target)
			}
			if _, err := os.Stat(filepath.Join(root, to)); err != nil {
				t.Errorf("%s links to %s, which does not exist", path, match[1])
				continue
			}
			if anchor != "" && !slices.Contains(anchors(read(t, to)), anchor) {
				t.Errorf("%s links to %s, but there is no such heading", path, match[1])
			}
		}
	}
}

// What the code and the chart say of a page, in comments and in texts that users read, points at a page that exists.
func TestPagesThatTheCodeNamesExist(t *testing.T) {
	named := regexp.MustCompile(`\bdocs/[a-z/_-]+\.(?:md|go|yaml)\b`)
	found := 0
	for _, path := range append(files(t, ".", ".go"), files(t, "charts", "")...) {
		for _, page := range named.FindAllString(read(t, path), -1) {
			found++
			if _, err := os.Stat(filepath.Join(root, page)); err != nil {
				t.Errorf("%s names %s, which does not exist", path, page)
			}
		}
	}
	if found < 30 {
		t.Errorf("found only %d pages: the test reads them wrongly", found)
	}
}

// Someone new finds each package in the table of CONTRIBUTING, and in that of the architecture.
func TestEveryPackageIsListed(t *testing.T) {
	folders, err := os.ReadDir(filepath.Join(root, "internal"))
	if err != nil || len(folders) < 15 {
		t.Fatalf("%d packages, %v", len(folders), err)
	}
	for _, page := range []string{"CONTRIBUTING.md", "docs/design/architecture.md"} {
		listed := ""
		for line := range strings.Lines(read(t, page)) {
			if row := strings.Split(line, "|"); len(row) > 3 {
				listed += row[1]
			}
		}
		for _, folder := range folders {
			if !regexp.MustCompile("[`/]" + folder.Name() + "`").MatchString(listed) {
				t.Errorf("%s does not list internal/%s", page, folder.Name())
			}
		}
	}
}

// What differs between kinds of workloads, modes and policies is data in one place. No other package compares them.
func TestNothingElseSwitchesOnAKind(t *testing.T) {
	compared := regexp.MustCompile(`(==|!=|case\b.*) *(workload\.(Deployment|StatefulSet|DaemonSet|CronJob|Rollout|StandAloneJob|ReplicaSet|ControllerRevision|Job)|optin\.(Revision|Restart|Attach|Policy\w+))\b|(case|\.\() *\*(appsv1|batchv1)\.`)
	seen := 0
	for _, file := range append(files(t, "internal", ".go"), files(t, "cmd", ".go")...) {
		text := read(t, file)
		for i, line := range strings.Split(text, "\n") {
			switch at := compared.MatchString(line); {
			case at && (strings.HasPrefix(file, "internal/workload/") || strings.HasPrefix(file, "internal/optin/") || strings.HasSuffix(file, "_test.go")):
				seen++
			case at:
				t.Errorf("%s:%d depends on what a kind, mode or policy is, not on what it means: %s", file, i+1, strings.TrimSpace(line))
			}
		}
	}
	if seen == 0 {
		t.Error("internal/workload switches on no kind: the test reads the code wrongly")
	}
}

// docs/cli.md shows each verb of the plugin. An end-to-end test runs them and compares what they print.
func TestEveryVerbIsShown(t *testing.T) {
	page, verbs := read(t, "docs/cli.md"), files(t, "docs/reference", ".md")
	if len(verbs) < 15 {
		t.Errorf("found only %v: the test looks in the wrong place", verbs)
	}
	for _, path := range verbs {
		name, found := strings.CutPrefix(strings.TrimSuffix(filepath.Base(path), ".md"), "kubectl_")
		if command := "kubectl " + strings.ReplaceAll(name, "_", " "); found && !strings.Contains(page, command) {
			t.Errorf("docs/cli.md does not show %s", command)
		}
	}
}

// An entry of troubleshooting begins with the text that a user sees, so the code or the chart must have it.
func TestQuotedMessagesExist(t *testing.T) {
	var all strings.Builder
	for _, path := range append(files(t, "internal", ".go"), files(t, "charts", ".yaml")...) {
		all.WriteString(strings.Join(strings.Fields(read(t, path)), " "))
	}
	// Messages of Kubernetes, which no file of this repository has.
	kubernetes := []string{"resolve-pins.confrev.io", "certificate signed by unknown authority"}
	quoted := regexp.MustCompile(`(?m)^(?:## .*?|- |# )"([^"\n]+)"`)
	found := 0
	for _, path := range files(t, "docs/troubleshooting", ".md") {
		for _, message := range quoted.FindAllStringSubmatch(read(t, path), -1) {
			found++
			if !slices.Contains(kubernetes, message[1]) && !strings.Contains(all.String(), message[1]) {
				t.Errorf("%s quotes %q, which no message contains", path, message[1])
			}
		}
	}
	if found < 5 {
		t.Errorf("found only %d messages: the test reads the pages wrongly", found)
	}
}

func TestMakeTargetsExist(t *testing.T) {
	makefile := read(t, "Makefile")
	command := regexp.MustCompile("(?m)(?:^|[`(] ?)(?:[A-Z_]+=\\S+ )?make ([a-z][a-z0-9-]*)")
	for _, path := range markdown(t) {
		for _, match := range command.FindAllStringSubmatch(read(t, path), -1) {
			if !strings.Contains(makefile, "\n"+match[1]+":") {
				t.Errorf("%s says `make %s`; the Makefile has no such target", path, match[1])
			}
		}
	}
}

// A page names the test that shows what it claims.
func TestNamedTestsExist(t *testing.T) {
	var code strings.Builder
	for _, path := range files(t, ".", "_test.go") {
		code.WriteString(read(t, path))
	}
	named := regexp.MustCompile("`(Test[A-Z]\\w+)(?:/(\\w+))?`")
	for _, path := range markdown(t) {
		for _, match := range named.FindAllStringSubmatch(read(t, path), -1) {
			// Go writes the spaces of a subtest's name as underscores.
			subtest := `"` + strings.ReplaceAll(match[2], "_", " ")
			if !strings.Contains(code.String(), "\nfunc "+match[1]+"(") || !strings.Contains(code.String(), subtest) {
				t.Errorf("%s names %s, which does not exist", path, strings.Trim(match[0], "`"))
			}
		}
	}
}

// The page on reliability says how many faults the other two list.
func TestFaultsAreCounted(t *testing.T) {
	reliability := section(t, "docs/reliability.md", "## What was found")
	for _, page := range []string{"design/faults.md", "design/faults-reading.md"} {
		// Two lines of the table are its head.
		rows := len(regexp.MustCompile(`(?m)^\|`).FindAllString(read(t, "docs/"+page), -1)) - 2
		link := regexp.MustCompile(`\[(\d+) [^\]]*\]\(` + regexp.QuoteMeta(page) + `\)`).FindStringSubmatch(reliability)
		if link == nil || link[1] != strconv.Itoa(rows) {
			t.Errorf("docs/reliability.md links to %s as %q; it lists %d", page, link, rows)
		}
	}
}

// wordLimit is what a reader takes in at one sitting. A page that grows beyond it is split by topic.
const wordLimit = 2000

func TestPagesAreShort(t *testing.T) {
	pages := markdown(t)
	if len(pages) < 40 {
		t.Errorf("found only %v: the test looks in the wrong place", pages)
	}
	for _, path := range pages {
		if words := len(strings.Fields(read(t, path))); words > wordLimit {
			t.Errorf("%s has %d words; no page has more than %d: split it by topic", path, words, wordLimit)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// files lists the files below a folder whose names end so, relative to the root.
func files(t *testing.T, folder, ending string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && slices.Contains([]string{".git", "bin", "node_modules", "testdata"}, entry.Name()) {
			return filepath.SkipDir
		}
		if !entry.IsDir() && strings.HasSuffix(path, ending) {
			relative, err := filepath.Rel(root, path)
			found = append(found, relative)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func markdown(t *testing.T) []string {
	t.Helper()
	return files(t, ".", ".md")
}

// constants returns the string constants that a file declares. A value may be a text, or a sum of texts and constants of
// the same file.
func constants(t *testing.T, path string) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, path), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || len(spec.Names) != len(spec.Values) {
			return true
		}
		for i, name := range spec.Names {
			if value := textOf(spec.Values[i], values); value != "" {
				values[name.Name] = value
			}
		}
		return true
	})
	return values
}

// textOf returns the value of a constant expression, or nothing if it is none of texts.
func textOf(expression ast.Expr, known map[string]string) string {
	switch e := expression.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil {
			return text
		}
	case *ast.Ident:
		return known[e.Name]
	case *ast.BinaryExpr:
		return textOf(e.X, known) + textOf(e.Y, known)
	}
	return ""
}

// section returns the part of a page from a heading up to the next of the same depth.
func section(t *testing.T, path, heading string) string {
	t.Helper()
	_, after, found := strings.Cut("\n"+read(t, path), "\n"+heading+"\n")
	if !found {
		t.Fatalf("%s has no heading %q", path, heading)
	}
	depth, _, _ := strings.Cut(heading, " ")
	part, _, _ := strings.Cut(after, "\n"+depth+" ")
	return part
}

// firstColumn returns what the tables of a section are about.
func firstColumn(t *testing.T, path, heading string) []string {
	t.Helper()
	var found []string
	for _, match := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(section(t, path, heading), -1) {
		found = append(found, match[1])
	}
	return found
}

// same reports what only the code has, and what only the page documents.
func same(t *testing.T, page string, inCode, documented []string) {
	t.Helper()
	if len(inCode) == 0 {
		t.Errorf("found nothing in the code for %s: the test reads it wrongly", page)
	}
	for _, name := range inCode {
		if !slices.Contains(documented, name) {
			t.Errorf("%s has no row for %s", page, name)
		}
	}
	for _, name := range documented {
		if !slices.Contains(inCode, name) {
			t.Errorf("%s has a row for %s, which the code does not know", page, name)
		}
	}
}

var fenced = regexp.MustCompile("(?ms)^ *```.*?^ *```")

func withoutCode(text string) string { return fenced.ReplaceAllString(text, "") }

// anchors returns the anchors of a page's headings, made as code hosts make them.
func anchors(text string) []string {
	var found []string
	for _, match := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(withoutCode(text), -1) {
		slug := regexp.MustCompile(`[^\w\- ]`).ReplaceAllString(strings.ToLower(match[1]), "")
		found = append(found, strings.ReplaceAll(slug, " ", "-"))
	}
	return found
}

// setting is a line of YAML that sets one of confrev's annotations.
var setting = regexp.MustCompile(`(?m)^ *(confrev\.io/[a-z-]+): ("[^"]*"|[^ #\n]+)`)

// Every setting that the guide to safe changes shows can be read, on a source or on a workload.
func TestSettingsOfTheGuideToSafeChangesCanBeRead(t *testing.T) {
	found := 0
	for _, match := range setting.FindAllStringSubmatch(read(t, "docs/guide/safe-changes.md"), -1) {
		found++
		annotations := map[string]string{match[1]: strings.Trim(match[2], `"`)}
		settings, invalid, problems := optin.Spreading(annotations, "")
		gates, more := optin.Gates(annotations, nil, "")
		config := optin.Read(optin.Metadata{Annotations: annotations}, optin.Defaults{})
		_, ofSource := optin.Compat{}.Describe(pin.Source{Kind: pin.ConfigMap, Name: "app"}, &metav1.ObjectMeta{Annotations: annotations})
		if len(invalid)+len(problems)+len(more) > 0 || len(config.Problems) > 0 && len(ofSource) > 0 || !settings.Active() && len(gates) == 0 && len(config.Analysis) == 0 && config.Crashes == 0 {
			t.Errorf("%s: %+v %+v %+v %+v", match[0], settings, gates, problems, more)
		}
	}
	if found < 9 {
		t.Errorf("found only %d settings: the test reads the page wrongly", found)
	}
}
