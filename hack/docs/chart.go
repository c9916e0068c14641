package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

// chartHead is what the chart's page says before its values. Links are absolute, since catalogs show the page elsewhere.
const chartHead = `<!-- Written by "make generate" from Chart.yaml and values.yaml. -->

# confrev

%s. [What confrev is](https://github.com/confrev/confrev).

The chart needs Kubernetes 1.30 or later, Helm 3.14 or later, and the right to create ClusterRoles and admission policies. Installing it changes nothing until a
workload opts in.

` + "```sh" + `
helm install confrev oci://ghcr.io/confrev/charts/confrev --namespace confrev-system --create-namespace
kubectl annotate deployment/web confrev.io/track=all
` + "```" + `

Upgrade with ` + "`helm upgrade --reset-then-reuse-values`" + `. Upgrading, rolling back and uninstalling restart nothing, but after an uninstallation, pods
that start read the live ConfigMaps.
[Install and operate](https://github.com/confrev/confrev/blob/main/docs/install.md) explains what each of them does, and what stays.

## Values

A value that the chart does not know is an error. An upgrade with ` + "`--reuse-values`" + ` is refused, because it would lack values that are new.

| value | default | meaning |
|---|---|---|
`

// chartPage returns the page of a chart: what it is, and its values, as the comments of values.yaml explain them.
func chartPage(chart string) ([]byte, error) {
	var metadata struct{ Description string }
	text, err := os.ReadFile(filepath.Join(chart, "Chart.yaml"))
	if err == nil {
		err = yaml.Unmarshal(text, &metadata)
	}
	if err != nil {
		return nil, err
	}
	var document yaml.Node
	text, err = os.ReadFile(filepath.Join(chart, "values.yaml"))
	if err == nil {
		err = yaml.Unmarshal(text, &document)
	}
	if err != nil {
		return nil, err
	}
	if len(document.Content) != 1 {
		return nil, errors.New("values.yaml is not one document")
	}
	var page strings.Builder
	fmt.Fprintf(&page, chartHead, metadata.Description)
	err = addValues(&page, document.Content[0], "")
	return []byte(page.String()), err
}

// addValues adds a row for each value, and one for each group of values that has a comment.
func addValues(page *strings.Builder, group *yaml.Node, prefix string) error {
	for i := 0; i < len(group.Content); i += 2 {
		key, value := group.Content[i], group.Content[i+1]
		name, about := prefix+key.Value, cell(key.HeadComment)
		if value.Kind == yaml.MappingNode && len(value.Content) > 0 && value.Style&yaml.FlowStyle == 0 {
			if about != "" {
				fmt.Fprintf(page, "| `%s` | | %s |\n", name, about)
			}
			if err := addValues(page, value, name+"."); err != nil {
				return err
			}
			continue
		}
		text, err := oneLine(value)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		fmt.Fprintf(page, "| `%s` | `%s` | %s |\n", name, text, about)
	}
	return nil
}

// oneLine returns a value as YAML on one line.
func oneLine(value *yaml.Node) (string, error) {
	if value.Kind == yaml.ScalarNode && value.Value == "" {
		return `""`, nil
	}
	bare := *value
	bare.HeadComment, bare.LineComment, bare.FootComment = "", "", ""
	bare.Style |= yaml.FlowStyle
	text, err := yaml.Marshal(&bare)
	return strings.TrimSpace(string(text)), err
}

// cell returns a comment as the text of a cell of a table. Examples of several lines are left to values.yaml.
func cell(comment string) string {
	var words []string
	for line := range strings.Lines(comment) {
		text := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "#"))
		if before, ok := strings.CutSuffix(text, "For example:"); ok {
			words = append(words, before+"See values.yaml for an example.")
			break
		}
		words = append(words, text)
	}
	return strings.ReplaceAll(strings.Join(words, " "), "|", `\|`)
}
