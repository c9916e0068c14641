package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/test/env"
)

// story is what the demo tells: a list of steps. All texts and commands may have {{names}}, for which the stage puts what was
// remembered under that name.
type story struct {
	about string
	// rollouts asks for the real Argo Rollouts controller; flags are further ones for confrev.
	rollouts bool
	flags    []string
	steps    []step
}

// step is a part of a story: what the reader is told, what is done, what the reader sees then, and what must hold.
type step struct {
	name   string
	says   string
	does   []action
	sees   []string
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
//go:embed web canary attach columns
var files embed.FS

// stage is where a story is told.
type stage struct {
	story
	ctx     context.Context
	colours bool
	began   time.Time
	// names are the values of {{names}}.
	names    map[string]string
	cleanups []func()

	env.World
	confrev *env.Confrev
	// dir has the user's files, folder is the one in which commands run; path is where they find kubectl and its plugins.
	dir, folder, path, kubeconfig string
	// restarted is the place in the audit log at which confrev was started again.
	restarted env.AuditMark
}

// failure ends a story.
type failure struct{ error }

// Context, Helper, Errorf, Fatalf and Cleanup make the stage an env.T.
func (s *stage) Context() context.Context     { return s.ctx }
func (s *stage) Helper()                      {}
func (s *stage) Errorf(f string, args ...any) { s.print(red, fmt.Sprintf(f, args...)) }
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
	s.print(bold, "confrev: configuration that rolls out, and back, like an image\n")
	s.print("", fmt.Sprintf(`A real Kubernetes control plane on this machine (cluster %q; KWOK plays the nodes) gets the chart by Helm,
then %s
On a machine that never did it, Kubernetes itself is built or downloaded first: up to 10 minutes.
`, name, s.about))
	if err := s.setUp(name); err != nil {
		return err
	}
	for i, step := range s.steps {
		s.print(bold, fmt.Sprintf("\n%d/%d  %s  (at %s)\n", i+1, len(s.steps), step.name, s.seconds()))
		s.tellStep(step)
	}
	s.print(bold, fmt.Sprintf("\nAll of it held, in %s.", s.seconds()))
	return nil
}

func (s *stage) tellStep(step step) {
	if step.says != "" {
		s.print("", s.fill(step.says))
	}
	for _, do := range step.does {
		do(s)
	}
	for _, command := range step.sees {
		s.show(command)
	}
	for _, check := range step.checks {
		s.claim(check)
	}
}

func (s *stage) setUp(name string) error {
	var flags []string
	tools := []string{"kubectl"}
	if s.rollouts {
		flags, tools = append(flags, env.ArgoRollouts), append(tools, "kubectl-argo-rollouts")
	}
	cluster, err := env.Up(s.ctx, name, os.Stdout, flags...)
	if err != nil {
		return err
	}
	for _, tool := range tools {
		path, err := cluster.Tool(s.ctx, tool)
		if err != nil {
			return err
		}
		s.path += filepath.Dir(path) + ":"
	}
	s.print(dim, "The chart is installed by Helm, confrev is built and started with the rights of the chart's ServiceAccount …")
	if err := cluster.Install(s.ctx); err != nil {
		return err
	}
	binary, err := cluster.Build(s.ctx, false)
	if err != nil {
		return err
	}
	if s.confrev, err = cluster.Confrev(s.ctx, "confrev", binary, s.flags...); err != nil {
		return err
	}
	if err := errors.Join(s.confrev.Start(s.ctx), cluster.WaitWebhook(s.ctx)); err != nil {
		return err
	}
	s.World = env.NewWorld(s, cluster, "demo")
	s.Patience = time.Minute
	s.dir, s.kubeconfig = filepath.Join(cluster.Dir, "files"), filepath.Join(cluster.Dir, "demo.kubeconfig")
	if err := errors.Join(os.CopyFS(s.dir, files), s.writeKubeconfig()); err != nil {
		return err
	}
	// The list is the cluster's, and an earlier story may have ended in the middle.
	s.output(keepUnready("none"))
	return nil
}

// writeKubeconfig writes the one of the shown commands: they need no --namespace then, nor do the reader's.
func (s *stage) writeKubeconfig() error {
	config, err := clientcmd.LoadFromFile(s.Cluster.Kubeconfig)
	if err != nil {
		return err
	}
	config.Contexts[config.CurrentContext].Namespace = s.NS
	return clientcmd.WriteToFile(*config, s.kubeconfig)
}

// stay lets the reader play, until ^C.
func (s *stage) stay() {
	s.print("", fmt.Sprintf(`
The cluster and confrev continue to run. To play with them, in another terminal:

  export KUBECONFIG=%s PATH=%s"$PATH"
  cd %s
  tail -f %s

^C ends confrev; 'make demo-down' removes the cluster.`, s.kubeconfig, s.path, filepath.Join(s.dir, s.folder), s.confrev.Log))
	<-s.ctx.Done()
}

// leave removes what is the story's own. The cluster stays.
func (s *stage) leave() error {
	for _, clean := range s.cleanups {
		clean()
	}
	return errors.Join(s.confrev.Stop(), s.Cluster.Discard())
}

// lookHere prints where to look for what went wrong.
func (s *stage) lookHere() {
	if s.confrev != nil {
		s.print("", fmt.Sprintf("logs: confrev: %s\n      control plane: %s", s.confrev.Log, filepath.Dir(s.Cluster.AuditLog)))
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
	s.print(cyan, "$ "+command)
	out := s.output(command)
	if out == "" {
		s.print(dim, "  (nothing)")
		return
	}
	for line := range strings.Lines(out) {
		s.print("", "  "+strings.TrimRight(line, "\n "))
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
	cmd.Env = append(os.Environ(), "KUBECONFIG="+s.kubeconfig, "PATH="+s.path+os.Getenv("PATH"))
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
	s.print(green, "✓ "+claim)
}

func (s *stage) seconds() string { return fmt.Sprintf("%.1f s", time.Since(s.began).Seconds()) }

// Select Graphic Rendition codes of ECMA-48.
const (
	bold  = "1"
	dim   = "2"
	red   = "31"
	green = "32"
	cyan  = "36"
)

func (s *stage) print(colour, text string) {
	if s.colours && colour != "" {
		text = "\033[" + colour + "m" + text + "\033[0m"
	}
	fmt.Println(text)
}

// does shows commands and what they print.
func does(commands ...string) action {
	return func(s *stage) {
		for _, command := range commands {
			s.show(command)
		}
	}
}

// tells prints a text in the middle of a step.
func tells(text string) action { return func(s *stage) { s.print("", "\n"+s.fill(text)) } }

// in makes a folder the one in which commands run.
func in(folder string) action { return func(s *stage) { s.folder = folder } }

// remember keeps what a command prints.
func remember(name, command string) action {
	return func(s *stage) { s.names[name] = s.output(s.fill(command)) }
}

// until waits for a fact.
func until(what string, f fact) action {
	return func(s *stage) {
		command, want := s.fill(f.command), s.fill(f.want)
		s.Eventually(what, func() string {
			seen, err := s.try(command)
			if err == nil && seen == want {
				return ""
			}
			return fmt.Sprintf("want\n%s\nhave\n%s", want, seen)
		})
	}
}

// pinned waits until a workload is pinned to a revision of its ConfigMap, of the same name, that has a content, and remembers
// the revision's name, and as NAMEpin the pin.
func pinned(as, workload, content string) action {
	return func(s *stage) {
		_, source, _ := strings.Cut(workload, "/")
		s.Eventually(workload+" is pinned to a revision with "+content, func() string {
			pins, err := pin.Parse(s.output("kubectl get " + workload + ` -o jsonpath='{.spec.template.metadata.annotations.confrev\.io/pins}'`))
			p := pins[pin.Source{Kind: pin.ConfigMap, Name: source}]
			if err != nil || p == (pin.Pin{}) {
				return fmt.Sprintf("no pin: %v", err)
			}
			s.names[as], s.names[as+"pin"] = p.Revision, p.String()
			s.names["next"] = fmt.Sprintf("configmap/%s@%d", source, p.Number+1)
			return differs(s.output(contentOf(p.Revision)), content)
		})
	}
}

func differs(seen, want string) string {
	if seen == want {
		return ""
	}
	return "have " + seen
}

// contentOf returns the command that prints the content of a ConfigMap, which has one key.
func contentOf(configMap string) string {
	return "kubectl get configmap " + configMap + " -o jsonpath='{.data.*}'"
}

// keepUnready returns the command by which the simulated nodes keep pods with some configuration from becoming ready.
func keepUnready(configuration string) string {
	return `kubectl patch stage pod-unready --type=json -p '[{"op":"replace","path":"/spec/selector/matchExpressions/0/jq/values","value":["` +
		configuration + `"]}]'`
}

// get returns the command that shows objects in the columns of a file: it stays short, and the reader can run it as well.
func get(resource, which string) string {
	return "kubectl get " + resource + " " + which + " -o custom-columns-file=../columns/" + resource
}

// pods returns the lines of the workload's pods, counted: ready or not, being deleted, and the ConfigMaps that they read by
// volumes and by envFrom.
func pods(app string, lines ...string) fact {
	return fact{"kubectl get pods -l app=" + app + " --no-headers -o custom-columns=R:.status.containerStatuses[*].ready,D:.metadata.deletionTimestamp," +
		"V:.spec.volumes[*].configMap.name,E:.spec.containers[*].envFrom[*].configMapRef.name | sort | uniq -c | awk '{$1=$1};1'",
		strings.Join(lines, "\n")}
}

// losePod deletes a pod that reads a ConfigMap, as the loss of its node would, and claims that its replacement reads the same.
func losePod(app, configMap, content string, same fact) action {
	return func(s *stage) {
		remember("lost", "kubectl get pods -l app="+app+" --no-headers -o custom-columns=N:.metadata.name,V:.spec.volumes[*].configMap.name"+
			" | awk '$2 == \""+configMap+"\" {print $1; exit}'")(s)
		s.show("kubectl delete pod {{lost}}")
		until("the pod is replaced", same)(s)
		s.show(get("pods", "-l app="+app))
		s.claim(check{"pod {{lost}} is gone", fact{"kubectl get pod {{lost}} --ignore-not-found -o name", ""}})
		s.claim(check{"its replacement reads the old configuration, " + configMap, same})
		s.claim(check{"which still has the good content", fact{contentOf(configMap), content}})
	}
}

// moves returns the command that shows any movement of a workload: its generation, its ReplicaSets and its pods.
func moves(workload, app string) string {
	return "kubectl get " + workload + " -o jsonpath='{.metadata.generation}'; " +
		"kubectl get replicasets,pods -l app=" + app + " --no-headers -o custom-columns=N:.metadata.name,R:.spec.replicas | sort"
}

// end ends confrev, by force or as Kubernetes would.
func end(byForce bool) action {
	return func(s *stage) {
		if byForce {
			s.print(cyan, fmt.Sprintf("$ kill -KILL %d", s.confrev.PID()))
			s.Must(s.confrev.Kill())
		} else {
			s.print(cyan, fmt.Sprintf("$ kill -TERM %d", s.confrev.PID()))
			s.Must(s.confrev.Stop())
		}
		s.print(green, "✓ confrev has ended")
	}
}

// start starts confrev again, and lets it deal with all that was changed before.
func start(s *stage) {
	s.print("", "\nStart confrev again; it finds everything as it should be.")
	mark, err := s.Cluster.AuditNow()
	s.Must(err)
	s.restarted = mark
	s.Must(s.confrev.Start(s.ctx))
	barrier(s)
}

// barrier returns confrev something later to do, and waits until it has done that.
func barrier(s *stage) {
	s.print(dim, "  … confrev is given something later to do: another ConfigMap is edited")
	s.Barrier()
}

// wroteNothing claims that confrev has written nothing since it was started again, except for the barrier.
func wroteNothing(s *stage) {
	requests, err := s.Cluster.ConfrevRequests(s.restarted)
	s.Must(err)
	for _, r := range requests {
		if r.Writes() && r.Object.Namespace == s.NS && !strings.HasPrefix(r.Object.Name, "barrier") {
			s.Fatalf("confrev wrote: %s", r)
		}
	}
	s.print(green, "✓ confrev wrote nothing, by the API server's audit log, except for what that other ConfigMap needs")
}
