// Command demo tells confrev's story on a real control plane of hack/cluster, shows with kubectl what happens, and checks
// each thing that it says. A story is a list of steps (web.go, canary.go, safety.go, node.go), made of actions (actions.go); stage.go tells it.
package main

import (
	"context"
	"embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/fatih/color"
	"golang.org/x/term"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"confrev.io/confrev/test/env"
)

// stories are those that can be told, by the word on the command line.
var stories = map[string]story{"": webStory, "canary": canaryStory, "node": nodeStory, "safety": safetyStory}

func main() {
	name := flag.String("name", "confrev", "name of the cluster")
	flag.Parse()
	told, ok := stories[flag.Arg(0)]
	if !ok || flag.NArg() > 1 {
		fmt.Fprintln(os.Stderr, "usage: demo [--name CLUSTER] [canary|node|safety]")
		os.Exit(2)
	}
	os.Exit(run(*name, told))
}

// run plays a story and returns the exit status.
func run(name string, told story) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s := newStage(ctx, told)
	err := s.tell(name)
	if err == nil && term.IsTerminal(int(os.Stdin.Fd())) {
		s.stay()
	}
	switch {
	case err == nil:
		err = s.leave()
	case ctx.Err() != nil:
		err = ctx.Err()
	default:
		s.lookHere()
	}
	if err != nil {
		fmt.Println(red("✗ " + err.Error()))
		return 1
	}
	return 0
}

// story is what the demo tells: a list of steps. All texts and commands may have {{names}}, for which the stage puts what was
// remembered under that name.
type story struct {
	about string
	// cluster are flags of env.Up, values those of the chart, flags further ones for confrev, tools what commands need besides kubectl.
	cluster, values, flags, tools []string
	// plugin is true if commands need confrev's own.
	plugin bool
	// real makes a real node the only one. The steps install confrev there themselves; elsewhere, it runs as a process.
	real  bool
	steps []step
}

// step is a part of a story: what the reader is told, what is done and shown, and what must hold then.
type step struct {
	name   string
	says   string
	does   []action
	checks []check
}

// action is something that is done.
type action func(s *stage)

// fact is a command of the shell, and what it must print.
type fact struct{ command, want string }

// check is a claim, and the fact that shows it.
type check struct {
	claim string
	fact
}

// files are what a user would have written (no trace of confrev but annotations), and the columns for kubectl to show.
//
//go:embed web canary attach node job safety columns
var files embed.FS

// On a terminal, what the reader sees has these colours.
var (
	bold  = color.New(color.Bold).SprintFunc()
	dim   = color.New(color.Faint).SprintFunc()
	red   = color.New(color.FgRed).SprintFunc()
	green = color.New(color.FgGreen).SprintFunc()
	cyan  = color.New(color.FgCyan).SprintFunc()
)

// stage is where a story is told.
type stage struct {
	story
	ctx   context.Context
	began time.Time
	// names are the values of {{names}}, marks are when something began.
	names    map[string]string
	marks    map[string]time.Time
	cleanups []func()

	env.World
	confrev *env.Confrev
	// crashes ends what makes containers crash; nil if nothing does.
	crashes func()
	// dir has the user's files, folder is the one in which commands run; path is where they find kubectl and its plugins.
	dir, folder, path, kubeconfig string
}

func newStage(ctx context.Context, told story) *stage {
	return &stage{ctx: ctx, story: told, names: map[string]string{}, marks: map[string]time.Time{}}
}

// failure ends a story.
type failure struct{ error }

// Context, Helper, Errorf, Fatalf and Cleanup make the stage an env.T.
func (s *stage) Context() context.Context     { return s.ctx }
func (s *stage) Helper()                      {}
func (s *stage) Errorf(f string, args ...any) { fmt.Println(red(fmt.Sprintf(f, args...))) }
func (s *stage) Fatalf(f string, args ...any) { panic(failure{fmt.Errorf(f, args...)}) }
func (s *stage) Cleanup(f func())             { s.cleanups = append(s.cleanups, f) }

// tell sets up and tells the story, up to what does not hold.
func (s *stage) tell(name string) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			err = r
		default:
			panic(r)
		}
	}()
	s.began = time.Now()
	fmt.Println(bold("confrev: configuration that rolls out, and back, like an image\n"))
	nodes := "KWOK plays the nodes"
	if s.real {
		nodes = "its one node is real"
	}
	fmt.Printf(`A real Kubernetes control plane on this machine (cluster %q; %s) gets the chart by Helm,
then %s
On a machine that never did it, Kubernetes itself is built or downloaded first: up to 10 minutes.

`, name, nodes, s.about)
	if err := s.setUp(name); err != nil {
		return err
	}
	for i, step := range s.steps {
		fmt.Println(bold(fmt.Sprintf("\n%d/%d  %s  (at %s)\n", i+1, len(s.steps), step.name, s.seconds())))
		s.tellStep(step)
	}
	fmt.Println(bold(fmt.Sprintf("\nAll of it held, in %s.", s.seconds())))
	return nil
}

func (s *stage) tellStep(step step) {
	if step.says != "" {
		fmt.Println(s.fill(step.says))
	}
	for _, do := range step.does {
		do(s)
	}
	for _, check := range step.checks {
		s.claim(check)
	}
}

func (s *stage) setUp(name string) error {
	var images *env.Images
	if s.real {
		// What an earlier story installed would not be installed in this one.
		err := env.Down(s.ctx, name, os.Stdout)
		if err == nil {
			images, err = env.MakeImages(s.ctx)
		}
		if err != nil {
			return err
		}
	}
	cluster, err := env.Up(s.ctx, name, os.Stdout, s.cluster...)
	if err != nil {
		return err
	}
	for _, tool := range append([]string{"kubectl"}, s.tools...) {
		path, err := cluster.Tool(s.ctx, tool)
		if err != nil {
			return err
		}
		s.path += filepath.Dir(path) + ":"
	}
	if s.plugin {
		plugin, err := cluster.Build(s.ctx, "kubectl-confrev", false)
		if err != nil {
			return err
		}
		s.path += filepath.Dir(plugin) + ":"
	}
	mark("install")(s)
	if s.real {
		err = s.prepareImages(cluster, images)
	} else {
		fmt.Println(dim("The chart is installed by Helm, confrev is built and started with the rights of the chart's ServiceAccount …"))
		s.confrev, err = cluster.StartConfrev(s.ctx, s.values, s.flags...)
	}
	if err != nil {
		return err
	}
	s.World = env.NewWorld(s, cluster, "demo")
	s.dir, s.kubeconfig = filepath.Join(cluster.Dir, "files"), filepath.Join(cluster.Dir, "demo.kubeconfig")
	// The shown commands need no --namespace then, nor do the reader's.
	inNamespace := func(_ *clientcmdapi.Config, current *clientcmdapi.Context) { current.Namespace = s.NS }
	if err := errors.Join(os.CopyFS(s.dir, files), cluster.WriteKubeconfig(s.kubeconfig, inNamespace)); err != nil {
		return err
	}
	// The list is the cluster's, and an earlier story may have ended in the middle.
	s.output(keepUnready("none"))
	return nil
}

// stay lets the reader play, until ^C.
func (s *stage) stay() {
	running, log, ends := "cluster and confrev continue", "\n  tail -f "+s.confrevLog(), "^C ends confrev; "
	if s.confrev == nil {
		running, log, ends = "cluster continues", "", "^C ends this; "
	}
	fmt.Printf(`
The %s to run. To play with them, in another terminal:

  export KUBECONFIG=%s PATH=%s"$PATH"
  cd %s%s

%s'make demo-down' removes the cluster.
`, running, s.kubeconfig, s.path, filepath.Join(s.dir, s.folder), log, ends)
	<-s.ctx.Done()
}

// confrevLog returns where confrev logs to, if it runs as a process.
func (s *stage) confrevLog() string {
	if s.confrev == nil {
		return "kubectl --namespace " + env.Namespace + " logs deployment/confrev"
	}
	return s.confrev.Log
}

// leave removes what is the story's own. The cluster stays.
func (s *stage) leave() error {
	for _, clean := range s.cleanups {
		clean()
	}
	if s.confrev == nil {
		return s.Cluster.Discard()
	}
	return errors.Join(s.confrev.Stop(), s.Cluster.Discard())
}

// lookHere prints where to look for what went wrong.
func (s *stage) lookHere() {
	if s.Cluster != nil {
		fmt.Printf("logs: confrev: %s\n      control plane: %s\n", s.confrevLog(), filepath.Dir(s.Cluster.AuditLog))
	}
}

var placeholder = regexp.MustCompile(`\{\{[a-z]+\}\}`)

// fill puts what was remembered for its name.
func (s *stage) fill(text string) string {
	return placeholder.ReplaceAllStringFunc(text, func(name string) string {
		value, ok := s.names[strings.Trim(name, "{}")]
		if !ok {
			s.Fatalf("%s is used before it is remembered", name)
		}
		return value
	})
}

// show runs a command as the reader would, and shows it and what it prints.
func (s *stage) show(command string) {
	command = s.fill(command)
	fmt.Println(cyan("$ " + command))
	out := s.output(command)
	if out == "" {
		fmt.Println(dim("  (nothing)"))
		return
	}
	for line := range strings.Lines(out) {
		fmt.Println("  " + strings.TrimRight(line, "\n "))
	}
}

// output runs a command in the folder of the user's files.
func (s *stage) output(command string) string {
	out, err := s.try(command)
	if err != nil {
		s.Fatalf("%s: %v\n%s", command, err, out)
	}
	return out
}

func (s *stage) try(command string) (string, error) {
	cmd := exec.CommandContext(s.ctx, "sh", "-c", command)
	cmd.Dir = filepath.Join(s.dir, s.folder)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+s.kubeconfig, "PATH="+s.path+os.Getenv("PATH"),
		"HELM_CACHE_HOME="+s.Cluster.Dir, "HELM_CONFIG_HOME="+s.Cluster.Dir, "HELM_DATA_HOME="+s.Cluster.Dir)
	// Both in one, as on a terminal: warnings are part of what the user sees.
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// claim states something that must hold now.
func (s *stage) claim(c check) {
	claim := s.fill(c.claim)
	if seen, want := s.output(s.fill(c.command)), s.fill(c.want); seen != want {
		s.Fatalf("%s: want\n%s\nhave\n%s\nby %s", claim, want, seen, s.fill(c.command))
	}
	fmt.Println(green("✓ " + claim))
}

func (s *stage) seconds() string { return fmt.Sprintf("%.1f s", time.Since(s.began).Seconds()) }
