package cli

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	kubectldiff "k8s.io/kubectl/pkg/cmd/diff"
	"k8s.io/utils/exec"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

type metadata = metav1.PartialObjectMetadata

// files are what is given to the diff program, by name.
type files map[string][]byte

// values gives the values of a ConfigMap or Secret by key.
func values(obj client.Object) map[string][]byte {
	all := map[string][]byte{}
	switch o := obj.(type) {
	case *corev1.Secret:
		maps.Copy(all, o.Data)
	case *corev1.ConfigMap:
		for key, value := range o.Data {
			all[key] = []byte(value)
		}
		maps.Copy(all, o.BinaryData)
	}
	return all
}

// addFiles adds a file for each key of two contents.
func addFiles(before, after files, prefix string, old, now map[string][]byte, masked bool) {
	for key, value := range old {
		other, both := now[key]
		before[prefix+key] = shownAs(value, masked, both && bytes.Equal(value, other), both, "before")
	}
	for key, value := range now {
		other, both := old[key]
		after[prefix+key] = shownAs(value, masked, both && bytes.Equal(value, other), both, "after")
	}
}

// shownAs gives a value as the diff program sees it. The masks are those of kubectl diff.
func shownAs(value []byte, masked, same, both bool, side string) []byte {
	switch {
	case masked && same:
		return []byte("***\n")
	case masked:
		return []byte("*** (" + side + ")\n")
	case len(value) == 0 && !both:
		// The program takes a file that is not there for an empty one.
		return []byte("(empty)\n")
	case !utf8.Valid(value) || bytes.IndexByte(value, 0) >= 0:
		return fmt.Appendf(nil, "binary, %d bytes, sha256:%x\n", len(value), sha256.Sum256(value))
	}
	return []byte(escaped(string(value)))
}

// runDiff runs the user's diff program as kubectl diff does. An exec.ExitError of status 1 says that there are differences.
func runDiff(streams genericiooptions.IOStreams, before, after files) (err error) {
	var dirs [2]*kubectldiff.Directory
	for i, side := range []struct {
		name  string
		files files
	}{{"FROM", before}, {"TO", after}} {
		if dirs[i], err = kubectldiff.CreateDirectory(side.name); err != nil {
			return err
		}
		defer func() {
			if gone := dirs[i].Delete(); err == nil {
				err = gone
			}
		}()
		for name, content := range side.files {
			if err := write(dirs[i], name, content); err != nil {
				return err
			}
		}
	}
	streams.Out, streams.ErrOut = raw(streams.Out), raw(streams.ErrOut)
	program := &kubectldiff.DiffProgram{Exec: exec.New(), IOStreams: streams}
	return program.Run(dirs[0].Name, dirs[1].Name)
}

func write(dir *kubectldiff.Directory, name string, content []byte) error {
	file, err := dir.NewFile(name)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Close())
}
