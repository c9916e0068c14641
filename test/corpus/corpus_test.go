//go:build corpus

package corpus

import (
	"bytes"
	"maps"
	"os"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/render"
)

func streams(t testing.TB) []Stream {
	t.Helper()
	streams, err := Streams(t.Context(), os.Getenv("HELM"))
	if err != nil {
		t.Fatal(err)
	}
	return streams
}

// known are what is wrong with manifests of the corpus; no one could apply these.
var known = regexp.MustCompile(`: (?:[a-z]+/\S+: )?(` + strings.Join([]string{
	`key ".*" is defined twice`, `it is defined twice, with different content in .*`, `illegal base64 data.*`,
	`spec.template is not a pod template: .*`, `want a line --- between documents`,
}, "|") + `)$`)

// Each file by itself, and all files of a directory as one stream, are rendered without a crash, to the same objects: only
// references and what must be new is new. Rendering again changes nothing.
func TestCorpus(t *testing.T) {
	var files, failed, size, objects, changed, revisions atomic.Int64
	check := func(stream Stream) {
		name, input := stream.Name, stream.Files
		for _, mode := range []render.Mode{render.Revision, render.Checksum} {
			out, err := render.Render(input, render.Options{Mode: mode})
			if err != nil {
				failed.Add(1)
				if readable(input) && !known.MatchString(err.Error()) {
					t.Errorf("%s", err)
				}
				return
			}
			if lost := lostComments(input, out.Text); len(lost) > 0 {
				t.Errorf("%s: lost %q", name, lost)
			}
			again, err := render.Render([]render.File{{Name: name, Data: out.Text}}, render.Options{Mode: mode})
			if err != nil || !bytes.Equal(out.Text, again.Text) {
				t.Errorf("%s: rendering again: %v\n%s", name, err, cmp.Diff(string(out.Text), string(again.Text)))
			}
			before, err := decodeAll(input)
			if err != nil {
				// kubectl would say so; it is no object.
				continue
			}
			after, err := Objects(out.Text)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			compare(t, name, before, after, out.Revisions)
			if mode == render.Revision {
				objects.Add(int64(len(before)))
				revisions.Add(int64(len(out.Revisions)))
				if len(out.Revisions) > 0 {
					changed.Add(1)
				}
			}
		}
	}
	all := streams(t)
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, stream := range all {
		group.Go(func() error {
			for _, file := range stream.Files {
				files.Add(1)
				size.Add(int64(len(file.Data)))
				if len(stream.Files) > 1 {
					check(complete(Stream{file.Name, []render.File{file}}))
				}
			}
			check(complete(stream))
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	t.Logf("%d modules, %d streams of %d files (%d MB), %d objects; %d could not be applied; %d got %d revisions",
		len(modules), len(all), files.Load(), size.Load()>>20, objects.Load(), failed.Load(), changed.Load(), revisions.Load())
	if files.Load() < 10_000 || revisions.Load() < 400 {
		t.Error("that is not what was there before")
	}
}

var comment = regexp.MustCompile(`(?m)(?:^|[ \t])(#.*?)[ \t\r]*$`)

// lostComments returns the comments that are not there any more. What looks like one in a text must be there too.
func lostComments(before []render.File, after []byte) []string {
	there := map[string]bool{}
	for _, found := range comment.FindAllSubmatch(after, -1) {
		there[string(found[1])] = true
	}
	var lost []string
	for _, file := range before {
		for _, found := range comment.FindAllSubmatch(file.Data, -1) {
			if !there[string(found[1])] {
				lost = append(lost, string(found[1]))
			}
		}
	}
	return lost
}

// complete adds what a stream lacks. One that cannot be read stays as it is: it must be refused.
func complete(stream Stream) Stream {
	completed, err := stream.Complete()
	if err != nil {
		return stream
	}
	return completed
}

// readable reports whether kubectl could read files.
func readable(files []render.File) bool {
	for _, file := range files {
		if _, err := Objects(file.Data); err != nil {
			return false
		}
	}
	return true
}

func decodeAll(files []render.File) ([]map[string]any, error) {
	var objects []map[string]any
	for _, file := range files {
		more, err := Objects(file.Data)
		if err != nil {
			return nil, err
		}
		objects = append(objects, more...)
	}
	return objects, nil
}

// compare reverts what rendering does, and wants to see what was there before.
func compare(t *testing.T, name string, before, after []map[string]any, made []render.Made) {
	t.Helper()
	original := map[string]string{}
	for _, revision := range made {
		original[revision.Revision] = revision.Source.Name
	}
	copies := 0
	var rest []map[string]any
	for _, object := range after {
		u := &unstructured.Unstructured{Object: object}
		if original[u.GetName()] != "" && u.GetAnnotations()[keys.SourceName] != "" && object["immutable"] == true {
			copies++
			continue
		}
		rest = append(rest, object)
	}
	if len(rest) != len(before) || copies != len(made) {
		t.Errorf("%s: %d objects became %d, with %d copies of %d", name, len(before), len(rest), copies, len(made))
		return
	}
	for i := range before {
		undo(rest[i], original)
		undo(before[i], nil)
		// Much faster than to look for a difference.
		if !reflect.DeepEqual(before[i], rest[i]) {
			t.Errorf("%s: (-before +after)\n%s", name, cmp.Diff(before[i], rest[i]))
		}
	}
}

// undo returns revisions their sources' names again, and removes what was added.
func undo(value any, original map[string]string) {
	switch v := value.(type) {
	case map[string]any:
		for key, field := range v {
			if text, is := field.(string); is && original[text] != "" {
				v[key] = original[text]
			}
			undo(field, original)
		}
		for _, key := range []string{keys.Mode, keys.Checksum} {
			delete(v, key)
		}
		maps.DeleteFunc(v, func(key string, field any) bool {
			fields, is := field.(map[string]any)
			return (key == "annotations" || key == "metadata") && (field == nil || is && len(fields) == 0)
		})
	case []any:
		for _, item := range v {
			undo(item, original)
		}
	}
}

// How fast rendering is, over all of the corpus.
func BenchmarkRender(b *testing.B) {
	all := streams(b)
	size := 0
	for _, stream := range all {
		size += stream.Size()
	}
	b.SetBytes(int64(size))
	for b.Loop() {
		for _, stream := range all {
			_, _ = render.Render(stream.Files, render.Options{})
		}
	}
}
