package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"

	"confrev.io/confrev/test/env"
)

// printer writes what the user reads, in colours on a terminal only.
type printer struct {
	io.Writer
	colours bool
}

func newPrinter(file *os.File) *printer {
	// https://no-color.org: set to anything but nothing.
	colours := term.IsTerminal(int(file.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return &printer{file, colours}
}

// Select Graphic Rendition codes of ECMA-48.
const (
	bold  = "1"
	dim   = "2"
	red   = "31"
	green = "32"
	cyan  = "36"
)

func (p *printer) in(colour, text string) string {
	if !p.colours {
		return text
	}
	return "\033[" + colour + "m" + text + "\033[0m"
}

func (p *printer) line(text string) { _, _ = fmt.Fprintln(p, text) }
func (p *printer) blank()           { p.line("") }

func (p *printer) title(text string) { p.line(p.in(bold, text)); p.blank() }

// say is for sentences.
func (p *printer) say(format string, args ...any) { p.line(fmt.Sprintf(format, args...)) }

// note is for what happens beside the story.
func (p *printer) note(format string, args ...any) { p.line(p.in(dim, fmt.Sprintf(format, args...))) }

func (p *printer) holds(claim string) { p.line(p.in(green, "✓ "+claim)) }

func (p *printer) broken(claim string) { p.line(p.in(red, "✗ "+claim)) }

func (p *printer) command(text string) { p.line(p.in(cyan, "$ "+text)) }

// output shows what a command printed.
func (p *printer) output(text string) {
	text = strings.TrimRight(text, "\n ")
	if text == "" {
		p.note("  (nothing)")
		return
	}
	for line := range strings.Lines(text) {
		p.line("  " + strings.TrimRight(line, "\n "))
	}
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// kubectl runs kubectl as the user would, in the folder of the user's files, and shows command and output.
func (s *story) kubectl(args ...string) string {
	if s.err != nil {
		return ""
	}
	s.out.command(shell(append([]string{"kubectl"}, args...)...))
	cmd := exec.CommandContext(s.ctx, s.kubectlPath, args...)
	cmd.Dir = s.files()
	cmd.Env = append(os.Environ(), "KUBECONFIG="+s.place.kubeconfig(), "PATH="+s.toolPath()+":"+os.Getenv("PATH"))
	var out bytes.Buffer
	// Both in one, as on a terminal: warnings are part of what the user sees.
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	s.out.output(out.String())
	if err != nil {
		s.err = fmt.Errorf("kubectl %s: %w", args[0], err)
	}
	return out.String()
}

// toolPath has the folders of kubectl and of its plugins, as $PATH would.
func (s *story) toolPath() string {
	return strings.Join(slices.Compact([]string{filepath.Dir(s.kubectlPath), cmp.Or(s.plugins, filepath.Dir(s.kubectlPath))}), ":")
}

var plainWord = regexp.MustCompile(`^[-\w./:=,@%+]+$`)

// shell writes words so that a shell reads them as they are.
func shell(words ...string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		if !plainWord.MatchString(word) {
			word = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
		quoted[i] = word
	}
	return strings.Join(quoted, " ")
}

// get shows objects in the columns of a file of columns/: the commands stay short, and the user can run them as well.
func (s *story) get(resource string, args ...string) {
	s.kubectl(append(append([]string{"get", resource}, args...), "-o", "custom-columns-file=../columns/"+resource)...)
}

func (s *story) showPods() { s.get("pods", "-l", "app="+s.subject.name) }

func (s *story) showEvents(reason string) { s.get("events", "--field-selector", "reason="+reason) }

// farewell says how to go on.
func (s *story) farewell(hints string) {
	s.out.blank()
	s.out.title(fmt.Sprintf("All of it held, in %s.", seconds(time.Since(s.began))))
	s.out.say("The cluster and confrev (pid %d) go on running. To play with them:", s.place.livePid())
	s.out.say(`
  export KUBECONFIG=%s PATH=%s:"$PATH"
  cd %s

%s
  tail -f %s
`, shell(s.place.kubeconfig()), shell(s.toolPath()), shell(s.files()), hints, shell(s.place.log()))
	s.out.say("Remove all of it:\n\n  cd %s && %s", shell(filepath.Clean(env.Root())), s.place.command("down"))
}
