package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// The notes of a release are those of its section, so sections have the form of versions and come in order, the newest first.
func TestChangelogIsInOrder(t *testing.T) {
	var versions [][3]int
	for line := range strings.Lines(read(t, "CHANGELOG.md")) {
		heading, is := strings.CutPrefix(strings.TrimSpace(line), "## ")
		if !is {
			continue
		}
		match := regexp.MustCompile(`^v(\d+)\.(\d+)\.(\d+)$`).FindStringSubmatch(heading)
		if match == nil {
			t.Errorf("%q is not a version such as v1.2.3", heading)
			continue
		}
		var version [3]int
		for i := range version {
			version[i], _ = strconv.Atoi(match[i+1])
		}
		versions = append(versions, version)
	}
	for i := 1; i < len(versions); i++ {
		newer, older := versions[i-1], versions[i]
		if newer[0] < older[0] || newer[0] == older[0] && (newer[1] < older[1] || newer[1] == older[1] && newer[2] <= older[2]) {
			t.Errorf("%v comes before %v", newer, older)
		}
	}
	if len(versions) == 0 {
		t.Error("CHANGELOG.md has no version")
	}
}

// A form of an issue that a code host cannot read is not shown at all.
func TestFormsOfIssues(t *testing.T) {
	forms, err := filepath.Glob(filepath.Join(root, ".github/ISSUE_TEMPLATE/*.yml"))
	if err != nil || len(forms) < 3 {
		t.Fatalf("%q, %v", forms, err)
	}
	for _, path := range forms {
		if filepath.Base(path) == "config.yml" {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var form struct {
			Name, Description string
			Labels            []string
			Body              []struct {
				Type, ID   string
				Attributes struct {
					Label, Description, Value, Render, Placeholder string
					Options                                        []struct{ Label string }
				}
				Validations struct{ Required bool }
			}
		}
		if err := yaml.UnmarshalStrict(text, &form); err != nil || form.Name == "" || form.Description == "" || len(form.Body) < 3 {
			t.Errorf("%s: %v, %+v", path, err, form)
		}
		ids := map[string]bool{}
		for _, part := range form.Body {
			markdown := part.Type == "markdown"
			if markdown != (part.ID == "") || markdown != (part.Attributes.Label == "") || ids[part.ID] {
				t.Errorf("%s: %+v has no label or id of its own", path, part)
			}
			ids[part.ID] = true
		}
	}
}
