package render

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

func isMapping(node *yaml.Node) bool { return node != nil && node.Kind == yaml.MappingNode }

func stringNode(value string) *yaml.Node {
	return quoted(&yaml.Node{Kind: yaml.ScalarNode, Tag: yaml.NodeTagString, Value: value})
}

// quoted quotes a string that would otherwise be read as something else, such as "yes", since kubectl reads YAML 1.1.
func quoted(scalar *yaml.Node) *yaml.Node {
	if scalar.Kind == yaml.ScalarNode && !isWord(scalar.Value) && scalar.ShortTag() == yaml.NodeTagString && yaml.IsYaml1_1NonString(scalar) {
		scalar.Style = yaml.DoubleQuotedStyle
	}
	return scalar
}

// position returns the index of a key's value in a mapping's content, or -1.
func position(mapping *yaml.Node, key string) int {
	if !isMapping(mapping) {
		return -1
	}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return i + 1
		}
	}
	return -1
}

// child returns the node at a path of keys, or nil.
func child(node *yaml.Node, keys ...string) *yaml.Node {
	for _, key := range keys {
		at := position(node, key)
		if at < 0 {
			return nil
		}
		node = node.Content[at]
	}
	return node
}

// text returns the scalar at a path of keys, or an empty string.
func text(node *yaml.Node, keys ...string) string {
	if node = child(node, keys...); node == nil || node.Kind != yaml.ScalarNode || node.Tag == yaml.NodeTagNull {
		return ""
	}
	return node.Value
}

// put sets a key of a mapping, and reports whether that changed it. Comments at the value stay.
func put(mapping *yaml.Node, key string, value *yaml.Node) (changed bool) {
	at := position(mapping, key)
	if at < 0 {
		mapping.Content = append(mapping.Content, stringNode(key), value)
		return true
	}
	old := mapping.Content[at]
	if old.Kind == yaml.ScalarNode && old.Value == value.Value && old.ShortTag() == value.ShortTag() {
		return false
	}
	value.HeadComment, value.LineComment, value.FootComment = old.HeadComment, old.LineComment, old.FootComment
	mapping.Content[at] = value
	return true
}

// mapping returns the mapping at a key of a mapping, and creates it if there is nothing, or something else.
func mapping(parent *yaml.Node, key string) *yaml.Node {
	if found := child(parent, key); isMapping(found) {
		return found
	}
	made := &yaml.Node{Kind: yaml.MappingNode, Tag: yaml.NodeTagMap}
	if key == "metadata" && position(parent, key) < 0 {
		// At the top, where readers expect it.
		parent.Content = slices.Insert(parent.Content, 0, stringNode(key), made)
	} else {
		put(parent, key, made)
	}
	return made
}

func remove(mapping *yaml.Node, unwanted func(key string) bool) {
	if !isMapping(mapping) {
		return
	}
	kept := mapping.Content[:0]
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if !unwanted(mapping.Content[i].Value) {
			kept = append(kept, mapping.Content[i], mapping.Content[i+1])
		}
	}
	mapping.Content = kept
}

// atPointer returns the node that a JSON pointer leads to. No part of the pointer may be escaped.
func atPointer(node *yaml.Node, pointer string) (*yaml.Node, error) {
	for part := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		next := child(node, part)
		if i, err := strconv.Atoi(part); err == nil && node.Kind == yaml.SequenceNode && i < len(node.Content) {
			next = node.Content[i]
		}
		if next == nil {
			return nil, fmt.Errorf("%s: there is nothing at %s", pointer, part)
		}
		node = next
	}
	return node, nil
}

// repeated returns a key that a mapping has twice, or nil. Parsers differ in how they handle that.
func repeated(node *yaml.Node) *yaml.Node {
	seen := map[string]bool{}
	for i, part := range node.Content {
		if isMapping(node) && i%2 == 0 {
			if seen[part.Value] {
				return part
			}
			seen[part.Value] = true
			continue
		}
		if twice := repeated(part); twice != nil {
			return twice
		}
	}
	return nil
}
