package main

import (
	"fmt"
	"strings"
	"time"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/test/env"
)

// does runs commands as the reader would, and shows them and what they print.
func does(commands ...string) action {
	return func(s *stage) {
		for _, command := range commands {
			s.show(command)
		}
	}
}

// tells prints a text in the middle of a step.
func tells(text string) action { return func(s *stage) { fmt.Println("\n" + s.fill(text)) } }

// in makes a folder the one in which commands run.
func in(folder string) action { return func(s *stage) { s.folder = folder } }

// remember keeps what a command prints.
func remember(name, command string) action {
	return func(s *stage) { s.names[name] = s.output(s.fill(command)) }
}

// mark notes that something begins.
func mark(name string) action { return func(s *stage) { s.marks[name] = time.Now() } }

// since remembers how long ago something was marked.
func since(mark, as string) action {
	return func(s *stage) { s.names[as] = fmt.Sprintf("%.1f s", time.Since(s.marks[mark]).Seconds()) }
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
			if seen := s.output(contentOf(p.Revision)); seen != content {
				return "have " + seen
			}
			return ""
		})
	}
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

// podOf returns the command that names one of the workload's pods that read a ConfigMap.
func podOf(app, configMap string) string {
	return "kubectl get pods -l app=" + app + " --no-headers -o custom-columns=N:.metadata.name,V:.spec.volumes[*].configMap.name" +
		` | awk '$2 == "` + configMap + `" {print $1; exit}'`
}

// losePod deletes a pod that reads a ConfigMap, as the loss of its node would, and claims that its replacement reads the same.
func losePod(app, configMap, content string, same fact) action {
	return func(s *stage) {
		remember("lost", podOf(app, configMap))(s)
		s.show("kubectl delete pod {{lost}}")
		until("the pod is replaced", same)(s)
		s.show(get("pods", "-l app="+app))
		s.claim(check{"pod {{lost}} is gone", fact{"kubectl get pod {{lost}} --ignore-not-found -o name", ""}})
		s.claim(check{"its replacement reads the old configuration, " + configMap, same})
		s.claim(check{"which still has the good content", fact{contentOf(configMap), content}})
	}
}

// moves returns the command that shows any movement of a workload: its generation, its ReplicaSets and its pods.
func moves(workload string) string {
	_, app, _ := strings.Cut(workload, "/")
	return "kubectl get " + workload + " -o jsonpath='{.metadata.generation}'; " +
		"kubectl get replicasets,pods -l app=" + app + " --no-headers -o custom-columns=N:.metadata.name,R:.spec.replicas | sort"
}

// withoutConfrev ends confrev by a signal, lets something happen, and starts it again. It claims that confrev, which deals with all
// that was changed before, writes nothing for it, and that nothing of a workload moves.
func withoutConfrev(signal string, end func(*env.Confrev) error, workload string, meanwhile action) action {
	return func(s *stage) {
		fmt.Println(cyan(fmt.Sprintf("$ kill -%s %d", signal, s.confrev.PID())))
		s.Must(end(s.confrev))
		fmt.Println(green("✓ confrev has ended"))
		meanwhile(s)
		before := s.output(moves(workload))
		fmt.Println("\nStart confrev again; it finds everything as it should be.")
		mark, err := s.Cluster.AuditNow()
		s.Must(err)
		s.Must(s.confrev.Start(s.ctx))
		barrier(s)
		s.wroteNothing(mark)
		s.claim(check{"nothing moved: the same generation, ReplicaSets and pods", fact{moves(workload), before}})
	}
}

// barrier makes a later change, and waits until confrev has dealt with it.
func barrier(s *stage) {
	fmt.Println(dim("  … confrev is given something later to do: another ConfigMap is edited"))
	s.Barrier()
}

// wroteNothing claims that confrev has written nothing since a mark, except for the barrier.
func (s *stage) wroteNothing(since env.AuditMark) {
	requests, err := s.Cluster.ConfrevRequests(since)
	s.Must(err)
	for _, r := range requests {
		if r.Writes() && r.Object.Namespace == s.NS && !strings.HasPrefix(r.Object.Name, "barrier") {
			s.Fatalf("confrev wrote: %s", r)
		}
	}
	fmt.Println(green("✓ confrev wrote nothing, by the API server's audit log, except for what that other ConfigMap needs"))
}
