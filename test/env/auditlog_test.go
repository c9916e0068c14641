package env

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// auditLog is an audit log of its own, without an API server.
type auditLog struct {
	*testing.T
	path string
}

func newAuditLog(t *testing.T) auditLog { return auditLog{t, filepath.Join(t.TempDir(), "audit.log")} }

func (l auditLog) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

func (l auditLog) write(lines ...string) {
	l.Helper()
	file, err := os.OpenFile(l.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	l.must(err)
	_, err = file.WriteString(strings.Join(lines, ""))
	l.must(err)
	l.must(file.Close())
}

// rotate does what the API server does with a file that is full.
func (l auditLog) rotate(time string) {
	l.Helper()
	l.must(os.Rename(l.path, strings.TrimSuffix(l.path, ".log")+"-"+time+".log"))
	l.write()
}

// end returns a mark of the end of what was written.
func (l auditLog) end() AuditMark {
	l.Helper()
	mark, err := auditEnd(l.path)
	l.must(err)
	return mark
}

// expect checks which lines are there since a mark, and what the mark behind the last of them is.
func (l auditLog) expect(since, end AuditMark, want ...string) {
	l.Helper()
	var got []string
	mark := since
	l.must(eachLine(l.path, since, func(line string, next AuditMark) (bool, error) {
		got, mark = append(got, line), next
		return false, nil
	}))
	if !slices.Equal(got, want) || mark != end {
		l.Errorf("%q until %v, want %q until %v", got, mark, want, end)
	}
}

func TestMarksOutliveRotations(t *testing.T) {
	l := newAuditLog(t)
	l.write("a\n", "b\n")
	first := l.end()
	l.write("c\n")
	l.rotate("2026-11-25T10-00-00.000")
	// Nothing is in the new file yet.
	l.expect(first, AuditMark{"a\n", 6}, "c\n")
	l.write("d\n", "e\n")
	second := l.end()
	l.expect(first, second, "c\n", "d\n", "e\n")
	l.expect(second, second)
	l.expect(AuditMark{}, second, "a\n", "b\n", "c\n", "d\n", "e\n")
	l.rotate("2026-11-25T11-00-00.000")
	l.write("f\n", "not complete")
	l.expect(first, AuditMark{"f\n", 2}, "c\n", "d\n", "e\n", "f\n")
	l.expect(second, AuditMark{"f\n", 2}, "f\n")
}

func TestAMarkWhoseFileIsGone(t *testing.T) {
	l := newAuditLog(t)
	l.write("a\n")
	mark := l.end()
	l.rotate("2026-11-25T10-00-00.000")
	l.write("b\n", "c\n")
	l.must(os.Remove(strings.TrimSuffix(l.path, ".log") + "-2026-11-25T10-00-00.000.log"))
	err := eachLine(l.path, mark, func(string, AuditMark) (bool, error) { return false, nil })
	if err == nil || !strings.Contains(err.Error(), "no longer has the file of a mark") {
		t.Errorf("%v", err)
	}
}
