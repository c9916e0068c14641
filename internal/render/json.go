package render

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// parseJSON reads consecutive JSON objects, the first of which begins at the given line of a file. It is not ok if the data is
// something else; flow mappings in YAML begin with a brace too.
//
// JSON is nearly YAML. What a YAML parser refuses is JSON's encoding of characters such as 😀: two escapes for one character.
func parseJSON(file string, line int, data []byte) (documents []*document, ok bool) {
	if !bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{")) {
		return nil, false
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	for {
		var raw json.RawMessage
		if err := decoder.Decode(&raw); err != nil {
			return documents, errors.Is(err, io.EOF)
		}
		tokens := json.NewDecoder(bytes.NewReader(raw))
		tokens.UseNumber()
		node, err := jsonNode(tokens)
		if err != nil || !isMapping(node) {
			return nil, false
		}
		before := data[:int(decoder.InputOffset())-len(raw)]
		documents = append(documents, &document{
			file: file, body: string(raw) + "\n", line: line + bytes.Count(before, []byte("\n")), node: node, json: raw,
			// Several objects, and YAML comments, require YAML. So everything is written as YAML.
			changed: true,
		})
	}
}

// jsonNode returns the YAML tree of the next JSON value, in its order.
func jsonNode(decoder *json.Decoder) (*yaml.Node, error) {
	token, err := decoder.Token()
	if err != nil {
		return nil, err
	}
	switch value := token.(type) {
	case json.Delim:
		node := &yaml.Node{Kind: yaml.MappingNode, Tag: yaml.NodeTagMap, Style: yaml.FlowStyle}
		if value == '[' {
			node.Kind, node.Tag = yaml.SequenceNode, yaml.NodeTagSeq
		}
		for decoder.More() {
			child, err := jsonNode(decoder)
			if err != nil {
				return nil, err
			}
			node.Content = append(node.Content, child)
		}
		_, err := decoder.Token()
		return node, err
	case string:
		return stringNode(value), nil
	case nil:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: yaml.NodeTagNull, Value: "null"}, nil
	}
	// A number or a boolean.
	return &yaml.Node{Kind: yaml.ScalarNode, Value: fmt.Sprint(token)}, nil
}
