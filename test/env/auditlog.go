package env

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// AuditMark is a place in the audit log; the zero mark is its beginning. The API server renames a file that is full and begins another, so
// a mark names its file by the first line, which has the ID of a request.
type AuditMark struct {
	firstLine string
	offset    int64
}

// AuditNow marks the end of the audit log, once it has all requests that were answered before. The API server writes a
// request's line after its answer, so it is asked for something that does not exist, and the line of that is awaited.
func (c *Cluster) AuditNow() (AuditMark, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	mark, err := auditEnd(c.AuditLog)
	if err != nil {
		return AuditMark{}, err
	}
	name := "audit-mark-" + rand.String(10)
	key := client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: name}
	if err := c.Client.Get(ctx, key, &corev1.ConfigMap{}); !apierrors.IsNotFound(err) {
		return AuditMark{}, fmt.Errorf("get configmap %s, which does not exist: %w", key, err)
	}
	err = wait.PollUntilContextCancel(ctx, 5*time.Millisecond, true, func(context.Context) (found bool, err error) {
		err = eachLine(c.AuditLog, mark, func(line string, end AuditMark) (bool, error) {
			mark, found = end, strings.Contains(line, name)
			return found, nil
		})
		return found, err
	})
	return mark, err
}

// AuditLines calls do with each line of the audit log between a mark and now, until do fails.
func (c *Cluster) AuditLines(since AuditMark, do func(line string) error) error {
	now, err := c.AuditNow()
	if err != nil || now == since {
		return err
	}
	return eachLine(c.AuditLog, since, func(line string, end AuditMark) (bool, error) { return end == now, do(line) })
}

// eachLine calls do with each complete line of the audit log at a path since a mark, and with the mark behind it, until do has what it
// wants or fails.
func eachLine(path string, since AuditMark, do func(line string, end AuditMark) (done bool, err error)) error {
	files, err := openAudit(path)
	if err != nil {
		return err
	}
	defer closeAll(files)
	if since != (AuditMark{}) {
		first := slices.IndexFunc(files, func(f *auditFile) bool { return f.mark.firstLine == since.firstLine })
		if first < 0 {
			return fmt.Errorf("the audit log %s no longer has the file of a mark: the API server keeps too few for what was asked of it since", path)
		}
		files = files[first:]
		files[0].mark = since
	}
	for _, f := range files {
		if done, err := f.eachLine(do); done || err != nil {
			return err
		}
	}
	return nil
}

// auditEnd marks the end of the audit log at a path.
func auditEnd(path string) (AuditMark, error) {
	files, err := openAudit(path)
	if err != nil || len(files) == 0 {
		return AuditMark{}, err
	}
	defer closeAll(files)
	last := files[len(files)-1]
	info, err := last.Stat()
	if err != nil {
		return AuditMark{}, err
	}
	return AuditMark{last.mark.firstLine, info.Size()}, nil
}

// auditFile is an open file of the audit log, and the place in it from which to read.
type auditFile struct {
	*os.File
	mark AuditMark
}

// openAudit opens the files of the audit log at a path that have a line, in the order in which they were written. If the API server renames
// one meanwhile, it begins again: another one may have been opened in its stead.
func openAudit(path string) ([]*auditFile, error) {
	// The name of a full file has the time after a hyphen, which sorts before the dot of the current one.
	pattern := strings.TrimSuffix(path, ".log") + "*.log"
	for {
		before, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		files, err := openAuditFiles(before)
		if after, badPattern := filepath.Glob(pattern); badPattern != nil || slices.Equal(before, after) {
			return files, errors.Join(err, badPattern)
		}
		closeAll(files)
	}
}

func openAuditFiles(names []string) (files []*auditFile, _ error) {
	for _, name := range names {
		f, err := openAuditFile(name)
		if err != nil {
			closeAll(files)
			return nil, err
		}
		files = append(files, f)
	}
	return slices.DeleteFunc(files, func(f *auditFile) bool {
		empty := f.mark.firstLine == ""
		if empty {
			closeAll([]*auditFile{f})
		}
		return empty
	}), nil
}

func openAuditFile(name string) (*auditFile, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(file).ReadString('\n')
	if errors.Is(err, io.EOF) {
		line, err = "", nil
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &auditFile{file, AuditMark{firstLine: line}}, nil
}

func closeAll(files []*auditFile) {
	for _, f := range files {
		// They were only read.
		_ = f.Close()
	}
}

func (f *auditFile) eachLine(do func(line string, end AuditMark) (done bool, err error)) (done bool, err error) {
	if _, err := f.Seek(f.mark.offset, io.SeekStart); err != nil {
		return false, err
	}
	for lines := bufio.NewReader(f); ; {
		line, err := lines.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		f.mark.offset += int64(len(line))
		if done, err := do(line, f.mark); done || err != nil {
			return done, err
		}
	}
}
