//go:build chaos

package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/test/env"
)

// play is a history that is happening, in a namespace of its own.
type play struct {
	*env.World
	history history
	// client and clientset write as users, and record what they wrote.
	client    client.Client
	clientset kubernetes.Interface
	*recorder
	*journal
	// exists has the objects that are there now, deleted those that a user deleted.
	exists  map[ref]bool
	deleted map[types.UID]bool
	// robbed are workloads whose pins a user replaced by those of other sources.
	robbed map[ref]bool
	// now is the step that happens, or how many there are when all have happened.
	now    int
	script []string
	// restartIn is how many further steps the process stays down, while isDown.
	restartIn int
	isDown    bool
	restore   func(context.Context) error
	// faults are what went wrong with the steps themselves: what should have been refused and was not.
	faults []string
}

// perform makes a history happen in a namespace, and returns what must not be.
func perform(t *witness, h history) (p *play) {
	world := env.NewWorld(t, cluster, "chaos")
	p = &play{World: &world, history: h, exists: map[ref]bool{}, deleted: map[types.UID]bool{}, robbed: map[ref]bool{}}
	p.Patience, t.play = patience, p
	p.recorder = &recorder{at: func() int { return p.now }}
	p.Must(p.connect())
	ctx, cancel := context.WithCancel(p.Ctx)
	defer cancel()
	p.journal = newJournal(p.NS)
	p.Must(p.follow(ctx))
	defer p.revive()
	for _, obj := range bystanderObjects() {
		p.Must(p.create(obj))
	}
	for i, s := range h {
		p.now = i
		p.Must(p.take(s))
	}
	p.now = len(h)
	p.revive()
	p.end()
	p.Must(p.complete())
	cancel()
	p.done.Wait()
	return p
}

// patience bounds each wait at the end of a history, on a machine on which many others happen: at a load of 34 on two processors, an Argo
// Rollout of three pods took two minutes.
const patience = 4 * time.Minute

// connect makes the clients of the play's users.
func (p *play) connect() error {
	config := *cluster.Config
	config.Wrap(p.wrap)
	// confrev warns of much of what random users do.
	config.WarningHandler = rest.NoWarnings{}
	http, err := clientFor(&config)
	if err != nil {
		return err
	}
	if p.client, err = client.New(&config, client.Options{HTTPClient: http, Scheme: cluster.Client.Scheme(), Mapper: cluster.Client.RESTMapper()}); err != nil {
		return err
	}
	p.clientset, err = kubernetes.NewForConfigAndClient(&config, http)
	return err
}

// take makes one step, if it can happen now.
func (p *play) take(s step) error {
	v := verbs[s.verb]
	p.script = append(p.script, "# "+s.String())
	if v.on != nil && p.exists[s.on] == v.absent {
		p.note("not now")
		return nil
	}
	total.took(s.verb, v.fault)
	if err := v.do(p, s); err != nil {
		return fmt.Errorf("step %d, %s: %w", p.now, s, err)
	}
	if p.isDown && !v.fault {
		if p.restartIn--; p.restartIn < 0 {
			p.revive()
		}
	}
	return nil
}

// line adds a line to the script; note adds a comment.
func (p *play) line(format string, args ...any) {
	p.script = append(p.script, fmt.Sprintf(format, args...))
}
func (p *play) note(format string, args ...any) {
	p.script = append(p.script, "#   "+strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " "))
}

// read reads an object as it is now.
func (p *play) read(r ref) (*unstructured.Unstructured, error) {
	obj := r.object()
	return obj, p.client.Get(p.Ctx, client.ObjectKey{Namespace: p.NS, Name: r.name()}, obj)
}

// create creates an object.
func (p *play) create(obj *unstructured.Unstructured) error {
	text, err := json.Marshal(obj)
	if err != nil {
		return err
	}
	p.line("kubectl create -f - <<'EOF'\n%s\nEOF", text)
	obj.SetNamespace(p.NS)
	if err := p.client.Create(p.Ctx, obj); err != nil {
		return err
	}
	p.exists[refOf(obj)] = true
	return nil
}

// delete deletes an object, and waits until it is gone: its name is free for the next one.
func (p *play) delete(r ref, how metav1.DeletionPropagation) error {
	cascade := strings.ToLower(string(how))
	p.line("kubectl delete %s %s --cascade=%s", r.kind(), r.name(), cascade)
	obj, err := p.read(r)
	if err != nil {
		return err
	}
	p.deleted[obj.GetUID()] = true
	if err := p.client.Delete(p.Ctx, obj, client.PropagationPolicy(how)); err != nil {
		return err
	}
	delete(p.exists, r)
	complaint := p.Poll(p.Patience, func() string {
		_, err := p.read(r)
		if apierrors.IsNotFound(err) {
			return ""
		}
		return fmt.Sprintf("%s is still there: %v", r, err)
	})
	if complaint != "" {
		return fmt.Errorf("delete: %s", complaint)
	}
	return nil
}

// stamp differs in every write. A write that changes nothing has the resourceVersion of the one before, which may be confrev's.
func (p *play) stamp() string { return fmt.Sprintf("%d-%d", p.now, len(p.script)) }

// stamped adds a stamp to a merge patch.
func (p *play) stamped(patch map[string]any) map[string]any {
	metadata, _ := patch["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
		patch["metadata"] = metadata
	}
	annotations, _ := metadata["annotations"].(map[string]any)
	all := map[string]any{"example.com/step": p.stamp()}
	maps.Copy(all, annotations)
	metadata["annotations"] = all
	return patch
}

// patch changes an object by a merge patch.
func (p *play) patch(r ref, patch map[string]any) error {
	return p.change(r, types.MergePatchType, p.stamped(patch))
}

func (p *play) annotate(r ref, annotations map[string]any) error {
	return p.patch(r, nested(annotations, "metadata", "annotations"))
}

// change patches an object, again if it changed meanwhile.
func (p *play) change(r ref, how types.PatchType, patch any) error {
	text, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	name := map[types.PatchType]string{types.MergePatchType: "merge", types.StrategicMergePatchType: "strategic", types.JSONPatchType: "json"}[how]
	p.line("kubectl patch %s %s --type=%s -p '%s'", r.kind(), r.name(), name, text)
	for {
		obj := r.object()
		obj.SetNamespace(p.NS)
		if err := p.client.Patch(p.Ctx, obj, client.RawPatch(how, text)); !apierrors.IsConflict(err) {
			return err
		}
	}
}

// workloads returns those that exist.
func (p *play) workloads() []ref {
	all := slices.Collect(maps.Keys(p.exists))
	all = slices.DeleteFunc(all, func(r ref) bool { return !isWorkload(r) })
	slices.Sort(all)
	return all
}

// text returns the history as a script that a person can run.
func (p *play) text() string {
	return "#!/bin/sh\n# In a namespace of its own: kubectl create namespace chaos; kubectl config set-context --current --namespace=chaos\n" +
		strings.Join(p.script, "\n") + "\n"
}
