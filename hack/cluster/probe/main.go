// Command probe is what the containers of a real node run: it shows which configuration a container really got. It is
// the only file of its image, and, as "probe pause", what holds a pod's sandbox.
//
//	probe [DIRECTORY...]        print what was read, then again whenever the files below the directories change
//	probe once [DIRECTORY...]   print what was read, and end, as an init container must
//	probe ready [DIRECTORY...]  fail if the configuration is one with which it crashes, as a readiness probe should
//	probe pause                 do nothing until told to end
//	probe exit                  end the container in which this is run (kubectl exec), so that the kubelet starts it again
//
// Each print is one line of JSON, {"env":{"CFG_A":"…"},"files":{"/etc/app/a":"…"}}, with the variables whose names begin
// with CFG_. Configuration in which a value is "crash" ends the probe with status 1. So does a signal: to a Job, its work
// is not done then.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	prefix = "CFG_"
	crash  = "crash"
	// every is how often the files are looked at.
	every = 200 * time.Millisecond
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	switch {
	case slices.Equal(args, []string{"pause"}):
		<-ctx.Done()
		return nil
	case slices.Equal(args, []string{"exit"}):
		// The first process of the container.
		return syscall.Kill(1, syscall.SIGTERM)
	case len(args) > 0 && args[0] == "once":
		now, err := read(args[1:])
		if err != nil {
			return err
		}
		return json.NewEncoder(os.Stdout).Encode(now)
	case len(args) > 0 && args[0] == "ready":
		now, err := read(args[1:])
		if err != nil {
			return err
		}
		return now.fault()
	}
	return watch(ctx, os.Stdout, args)
}

// reading is what a container got as its configuration.
type reading struct {
	Env   map[string]string `json:"env"`
	Files map[string]string `json:"files"`
}

func watch(ctx context.Context, out io.Writer, dirs []string) error {
	var last reading
	for {
		now, err := read(dirs)
		if err != nil {
			return err
		}
		if !reflect.DeepEqual(now, last) {
			if err := json.NewEncoder(out).Encode(now); err != nil {
				return err
			}
			last = now
		}
		if err := now.fault(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.New("told to end")
		case <-time.After(every):
		}
	}
}

// fault returns an error if this is a configuration with which the probe crashes.
func (r reading) fault() error {
	is := func(v string) bool { return strings.TrimSpace(v) == crash }
	if slices.ContainsFunc(slices.Collect(maps.Values(r.Env)), is) || slices.ContainsFunc(slices.Collect(maps.Values(r.Files)), is) {
		return errors.New("the configuration says " + crash)
	}
	return nil
}

func read(dirs []string) (reading, error) {
	r := reading{Env: map[string]string{}, Files: map[string]string{}}
	for _, variable := range os.Environ() {
		if name, value, _ := strings.Cut(variable, "="); strings.HasPrefix(name, prefix) {
			r.Env[name] = value
		}
	}
	for _, dir := range dirs {
		if err := r.readDir(dir); err != nil {
			return reading{}, err
		}
	}
	return r, nil
}

// readDir reads what a volume shows: files and links to them, but not the directories in which the kubelet keeps their
// versions (..data). A file that goes while it is looked at was just replaced; the next look sees the new one.
func (r reading) readDir(dir string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case strings.HasPrefix(entry.Name(), ".."):
			return skip(entry)
		}
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
			return ignoreGone(err)
		}
		content, err := os.ReadFile(path)
		if err == nil {
			r.Files[path] = string(content)
		}
		return ignoreGone(err)
	})
}

func skip(entry fs.DirEntry) error {
	if entry.IsDir() {
		return fs.SkipDir
	}
	return nil
}

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
