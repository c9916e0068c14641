//go:build chaos

package chaos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// checkGone asks who used a revision at the very moment in which it went: what came later found it gone, and had it made again.
func (j *journal) checkGone(ctx context.Context, e entry) {
	total.revisions.Add(1)
	users, err := usersAt(ctx, j.namespace, e)
	if err != nil {
		if !errors.Is(err, context.Canceled) && ctx.Err() == nil {
			j.complain("who used %s when it went at %d: %v", e.ref, e.version, err)
		}
		return
	}
	if len(users) > 0 && !slices.ContainsFunc(users, func(user *unstructured.Unstructured) bool { return !j.isExcused(user, e.at) }) {
		j.lose(e.ref)
		return
	}
	for _, user := range users {
		j.complain("%s went at %d while %s uses it", e.ref, e.version, refOf(user))
	}
}

// isExcused reports whether confrev could not make an object an owner of what it uses in time (rule 12): it is a holder that was created while
// confrev was away, or had just come back, and whose workload was deleted without it.
func (j *journal) isExcused(user *unstructured.Unstructured, at time.Time) bool {
	return j.isOrphan(user) && process.cover(user.GetCreationTimestamp().Time, at)
}

// isOrphan reports whether the workload that created a holder was deleted without it. A new one of its name may have adopted it since.
func (j *journal) isOrphan(user *unstructured.Unstructured) bool {
	if !slices.Contains(holderKinds, refOf(user).kind()) {
		return false
	}
	controller := metav1.GetControllerOf(user)
	if controller == nil {
		return true
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.ContainsFunc(j.entries, func(e entry) bool {
		if e.uid != user.GetUID() || e.event != watch.Added {
			return false
		}
		creator := metav1.GetControllerOf(e.obj)
		return creator != nil && creator.UID != controller.UID
	})
}

// lose notes that a revision in use went, as the rules say that it may.
func (j *journal) lose(r ref) {
	total.lost.Add(1)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lost[r] = true
}

// isLost reports whether a revision in use went, as the rules say that it may.
func (j *journal) isLost(r ref) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lost[r]
}

// usersAt lists the living objects that used a revision when it went.
func usersAt(ctx context.Context, namespace string, e entry) (users []*unstructured.Unstructured, err error) {
	c, err := watcher()
	if err != nil {
		return nil, err
	}
	then := &client.ListOptions{Raw: &metav1.ListOptions{
		ResourceVersion: strconv.FormatInt(e.version, 10), ResourceVersionMatch: metav1.ResourceVersionMatchExact}}
	all := map[types.UID]*unstructured.Unstructured{}
	for _, kind := range slices.Concat(holderKinds, workloadKinds, []string{"pod"}) {
		list := listOf(kind)
		if err := c.List(ctx, list, client.InNamespace(namespace), then); err != nil {
			return nil, fmt.Errorf("list %s at %d: %w", kind, e.version, err)
		}
		for i := range list.Items {
			all[list.Items[i].GetUID()] = &list.Items[i]
		}
	}
	for _, obj := range all {
		if usedBy(obj)[string(e.ref)] && lives(obj, all) {
			users = append(users, obj)
		}
	}
	return withoutPodsOf(users), nil
}

// withoutPodsOf drops the pods of the users of a revision: whether a holder may lose it decides about its pods.
func withoutPodsOf(users []*unstructured.Unstructured) []*unstructured.Unstructured {
	uids := map[types.UID]bool{}
	for _, user := range users {
		uids[user.GetUID()] = true
	}
	return slices.DeleteFunc(slices.Clone(users), func(user *unstructured.Unstructured) bool {
		controller := metav1.GetControllerOf(user)
		return user.GetKind() == "Pod" && controller != nil && uids[controller.UID]
	})
}

func TestAHolderDecidesAboutItsPods(t *testing.T) {
	object := func(kind, name, controller string) *unstructured.Unstructured {
		obj := &unstructured.Unstructured{}
		obj.SetKind(kind)
		obj.SetName(name)
		obj.SetUID(types.UID(name))
		if controller != "" {
			obj.SetOwnerReferences([]metav1.OwnerReference{{Name: controller, UID: types.UID(controller), Controller: new(true)}})
		}
		return obj
	}
	users := []*unstructured.Unstructured{
		object("Pod", "of-a-user", "holder"), object("ReplicaSet", "holder", "workload"), object("Pod", "of-another", "not-a-user"), object("Deployment", "workload", ""),
	}
	var names []string
	for _, user := range withoutPodsOf(users) {
		names = append(names, user.GetName())
	}
	if diff := cmp.Diff([]string{"holder", "of-another", "workload"}, names); diff != "" {
		t.Error(diff)
	}
}

// lives reports whether an object is to stay. What is being deleted is not, nor is what goes with its controller. A pod alone is not
// a user (rule 13).
func lives(obj *unstructured.Unstructured, all map[types.UID]*unstructured.Unstructured) bool {
	if obj.GetDeletionTimestamp() != nil && !slices.Contains(obj.GetFinalizers(), "orphan") {
		return false
	}
	owner := metav1.GetControllerOf(obj)
	if owner == nil {
		return obj.GetKind() != "Pod"
	}
	controller, ok := all[owner.UID]
	return ok && lives(controller, all)
}

// leftovers complains of what is left and unused, or used and not there (invariant 3).
func (p *play) leftovers() string {
	c, err := watcher()
	if err != nil {
		return err.Error()
	}
	used, there := map[string]ref{}, map[string]bool{}
	for _, kind := range slices.Concat(holderKinds, workloadKinds, sourceKinds) {
		list := listOf(kind)
		if err := c.List(p.Ctx, list, client.InNamespace(p.NS)); err != nil {
			return err.Error()
		}
		for _, obj := range list.Items {
			if slices.Contains(sourceKinds, kind) {
				if isRevision(&obj) && !p.exists[refOf(&obj)] {
					there[string(refOf(&obj))] = true
				}
				continue
			}
			for name := range usedBy(&obj) {
				used[name] = refOf(&obj)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(there)) {
		if _, ok := used[name]; !ok {
			return name + " is left, and nothing uses it"
		}
	}
	for _, name := range slices.Sorted(maps.Keys(used)) {
		// What no one ever copied, because someone wrote a pin by hand, is not there.
		if sourceOf(ref(name).name()) != "" && !there[name] && !p.isLost(ref(name)) && !strings.Contains(noPin, ref(name).name()) {
			return fmt.Sprintf("%s uses %s, which does not exist", used[name], name)
		}
	}
	return ""
}
