// Package admission looks after the admission policies that resolve pins. The policies themselves are in charts/confrev.
package admission

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// settled is how old a policy must be before every API server is taken to act on it. They look for new policies once
	// a second (k8s.io/apiserver/pkg/admission/plugin/policy/generic); pods that slip through before stay unresolved.
	settled = 5 * time.Second
	// While the gate is closed, the policies are looked at often; while it is open, only to notice that they went.
	lookClosed = 500 * time.Millisecond
	lookOpen   = 30 * time.Second
)

// Gate is open while the policies are there that resolve pins and refuse pods whose pins were not resolved. Without them a
// pin would have no effect, and nobody would notice.
type Gate struct {
	reader client.Reader
	prefix string
	now    func() time.Time

	mu      sync.Mutex
	problem error
}

// NewGate makes a Gate that is closed. prefix is what the names of the policies begin with.
func NewGate(reader client.Reader, prefix string, now func() time.Time) *Gate {
	return &Gate{reader: reader, prefix: prefix, now: now, problem: errors.New("the admission policies were not looked at yet")}
}

// Problem is nil while the gate is open; else it says what is wrong with the policies and what to do.
func (g *Gate) Problem() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.problem
}

// Check is Problem as a readiness check.
func (g *Gate) Check(*http.Request) error { return g.Problem() }

// NeedLeaderElection is false: a replica that waits to lead must be ready to.
func (*Gate) NeedLeaderElection() bool { return false }

// Start keeps looking until ctx ends.
func (g *Gate) Start(ctx context.Context) error {
	for {
		problem := g.look(ctx)
		g.set(ctx, problem)
		wait := lookOpen
		if problem != nil {
			wait = lookClosed
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

func (g *Gate) set(ctx context.Context, problem error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	before, after := fmt.Sprint(g.problem), fmt.Sprint(problem)
	g.problem = problem
	switch {
	case problem == nil && before != after:
		log.FromContext(ctx).Info("the admission policies are in place")
	case before != after:
		log.FromContext(ctx).Info("nothing is pinned for now", "because", after)
	}
}

// look gives what is wrong with the policies, if anything.
func (g *Gate) look(ctx context.Context) error {
	for _, kind := range []struct{ kind, suffix string }{
		{"MutatingAdmissionPolicy", "-resolve-pins"},
		{"MutatingAdmissionPolicyBinding", "-resolve-pins"},
		{"ValidatingAdmissionPolicy", "-refuse-unresolved-pins"},
		{"ValidatingAdmissionPolicyBinding", "-refuse-unresolved-pins"},
	} {
		if err := g.lookAt(ctx, kind.kind, g.prefix+kind.suffix); err != nil {
			return err
		}
	}
	return nil
}

func (g *Gate) lookAt(ctx context.Context, kind, name string) error {
	policy := &metav1.PartialObjectMetadata{}
	policy.SetGroupVersionKind(schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: kind})
	err := g.reader.Get(ctx, client.ObjectKey{Name: name}, policy)
	switch {
	case meta.IsNoMatchError(err):
		return fmt.Errorf("the API server does not serve %s in version v1; confrev needs Kubernetes 1.36 or later", kind)
	case apierrors.IsNotFound(err), err == nil && policy.DeletionTimestamp != nil:
		return fmt.Errorf("%s %s is missing, so pins would have no effect; install or upgrade the chart (or see --policy-prefix)", kind, name)
	case err != nil:
		return fmt.Errorf("look up %s %s: %w", kind, name, err)
	case g.now().Sub(policy.CreationTimestamp.Time) < settled:
		return fmt.Errorf("%s %s is new; waiting until every API server acts on it", kind, name)
	}
	return nil
}
