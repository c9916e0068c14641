package inspect

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"
	"unicode/utf8"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	kubectldiff "k8s.io/kubectl/pkg/cmd/diff"
	"k8s.io/utils/exec"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/plugin/printer"
	"confrev.io/confrev/internal/revision"
)

// files are what is given to the diff program, by name.
type files map[string][]byte

// values returns the values of a ConfigMap or Secret by key.
func values(obj client.Object) map[string][]byte {
	read := revision.ContentOf(obj)
	all := maps.Clone(read.Data)
	maps.Copy(all, read.BinaryData)
	return all
}

func addFiles(before, after files, old, now map[string][]byte, masked bool) {
	for key, value := range old {
		other, both := now[key]
		before[key] = shownAs(value, masked, both && bytes.Equal(value, other), both, "before")
	}
	for key, value := range now {
		other, both := old[key]
		after[key] = shownAs(value, masked, both && bytes.Equal(value, other), both, "after")
	}
}

// shownAs returns a value as the diff program sees it. The masks are those of kubectl diff.
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
	return []byte(printer.Escaped(string(value)))
}

// side is one of the two sides of a comparison: files in a directory of this name.
type side struct {
	path string
	// at is when the content was made; zero when that is not known.
	at time.Time
	files
}

func (s side) equal(other side) bool { return maps.EqualFunc(s.files, other.files, bytes.Equal) }

// runDiff runs the user's diff program as kubectl diff does, in a directory where the sides have their own names. An
// exec.ExitError of status 1 says that there are differences.
func runDiff(streams genericiooptions.IOStreams, both [2]side) (err error) {
	base, err := os.MkdirTemp("", "confrev-diff-")
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, os.RemoveAll(base)) }()
	for _, s := range both {
		if err := s.write(base); err != nil {
			return err
		}
	}
	streams.Out, streams.ErrOut = printer.Raw(streams.Out), printer.Raw(streams.ErrOut)
	program := &kubectldiff.DiffProgram{Exec: within{exec.New(), base}, IOStreams: streams}
	return program.Run(filepath.FromSlash(both[0].path), filepath.FromSlash(both[1].path))
}

func (s side) write(base string) error {
	dir := filepath.Join(base, filepath.FromSlash(s.path))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for name, content := range s.files {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return err
		}
		if s.at.IsZero() {
			continue
		}
		if err := os.Chtimes(path, s.at, s.at); err != nil {
			return err
		}
	}
	return nil
}

// within runs programs in a directory. Those that are named by a relative path are still found from where the user is.
type within struct {
	exec.Interface
	dir string
}

func (w within) Command(program string, args ...string) exec.Cmd {
	if filepath.Base(program) != program {
		if path, err := filepath.Abs(program); err == nil {
			program = path
		}
	}
	command := w.Interface.Command(program, args...)
	command.SetDir(w.dir)
	return command
}
