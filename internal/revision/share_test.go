package revision

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"confrev.io/confrev/internal/inflight"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/test/gen"
)

// delaying makes a Store whose requests take until delay returns, which may also make them fail. It counts them.
func delaying(delay func(ctx context.Context) error, objects ...client.Object) (s *Store, requests *int) {
	requests = new(int)
	c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(objects...).
		WithIndex(&corev1.ConfigMap{}, BySource, IndexBySource(pin.ConfigMap)).Build()
	slow := interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			*requests++
			if err := delay(ctx); err != nil {
				return err
			}
			return c.Get(ctx, key, obj, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			*requests++
			if err := delay(ctx); err != nil {
				return err
			}
			return c.Patch(ctx, obj, patch, opts...)
		},
	})
	return NewStore(c, slow, slow, time.Now, appsKinds{}, 10), requests
}

var (
	appRef = Ref{pin.ConfigMap, gen.Namespace, "app"}
	dbRef  = Ref{pin.Secret, gen.Namespace, "db"}
)

// sharing returns the objects that sharedRequests are about.
func sharing() []client.Object {
	return []client.Object{
		gen.ConfigMap("app", map[string]string{"k": "v"}), gen.Secret("db", corev1.SecretTypeOpaque, nil), keySecret('a', "uid-of-key"), anchorObject(ours),
	}
}

// sharedRequests are all that callers share.
var sharedRequests = map[string]func(ctx context.Context, s *Store) error{
	"look at a source": func(ctx context.Context, s *Store) error {
		_, err := s.isCurrent(ctx, appRef, Observation{})
		return err
	},
	"read a source": func(ctx context.Context, s *Store) error {
		_, _, err := s.snapshot(ctx, appRef, "uid/1", Observation{}, "")
		return err
	},
	"read a key": func(ctx context.Context, s *Store) error {
		_, err := s.readKey(ctx, gen.Namespace, true)
		return err
	},
	"read a type": func(ctx context.Context, s *Store) error {
		return s.readType(ctx, Metadata(dbRef))
	},
	"make the anchor": func(ctx context.Context, s *Store) error {
		_, err := s.ensureAnchor(ctx, gen.Namespace)
		return err
	},
	"label a source": func(ctx context.Context, s *Store) error {
		return s.Label(ctx, appRef)
	},
	"make a revision": func(ctx context.Context, s *Store) error {
		seen := Observation{Object: Metadata(appRef)}
		seen.Hash = snapshotOf(gen.ConfigMap("app", map[string]string{"k": "v"})).Hash
		_, _, err := s.Ensure(ctx, appRef, seen, 1, Owner{})
		return err
	},
}

// A caller that ends, such as a webhook whose request does, ends nothing for the others.
func TestNoOneEndsARequestForOthers(t *testing.T) {
	for name, do := range sharedRequests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				answer := make(chan struct{})
				s, requests := delaying(func(ctx context.Context) error {
					select {
					case <-answer:
						return nil
					case <-ctx.Done():
						return ctx.Err()
					}
				}, sharing()...)
				ending, end := context.WithCancel(t.Context())
				ended, others := make(chan error, 1), make(chan error, 2)
				go func() { ended <- do(ending, s) }()
				synctest.Wait()
				for range cap(others) {
					go func() { others <- do(t.Context(), s) }()
				}
				synctest.Wait()
				if *requests != 1 {
					t.Errorf("%d requests", *requests)
				}
				end()
				synctest.Wait()
				select {
				case err := <-ended:
					if !errors.Is(err, context.Canceled) {
						t.Errorf("the one that ended got %v", err)
					}
				default:
					t.Error("the one that ended waits for the answer")
				}
				close(answer)
				for range cap(others) {
					if err := <-others; err != nil {
						t.Errorf("another got %v", err)
					}
				}
			})
		})
	}
}

// A caller that has ended, such as one that no longer leads, writes nothing.
func TestWhatHasEndedBeginsNothing(t *testing.T) {
	for name, do := range sharedRequests {
		t.Run(name, func(t *testing.T) {
			s, requests := delaying(func(context.Context) error { return nil }, sharing()...)
			ended, end := context.WithCancel(t.Context())
			end()
			if err := do(ended, s); !errors.Is(err, context.Canceled) || *requests > 0 {
				t.Errorf("%v, %d requests", err, *requests)
			}
		})
	}
}

// What no one can end ends by itself.
func TestASharedRequestDoesNotTakeForever(t *testing.T) {
	for name, do := range sharedRequests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, _ := delaying(func(ctx context.Context) error {
					<-ctx.Done()
					return ctx.Err()
				}, sharing()...)
				begun := time.Now()
				if err := do(t.Context(), s); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != patience {
					t.Errorf("after %s: %v", time.Since(begun), err)
				}
			})
		})
	}
}

// An API server waits for what is urgent, so that must not wait for requests that have to wait themselves (inflight.Limit).
func TestWhatIsUrgentDoesNotWaitForOthers(t *testing.T) {
	for name, do := range sharedRequests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				turn := make(chan struct{})
				s, _ := delaying(func(ctx context.Context) error {
					if !inflight.IsUrgent(ctx) {
						<-turn
					}
					return nil
				}, sharing()...)
				patient := make(chan error, 1)
				go func() { patient <- do(t.Context(), s) }()
				synctest.Wait()
				urgent := make(chan error, 1)
				go func() { urgent <- do(inflight.Urgent(t.Context()), s) }()
				synctest.Wait()
				select {
				case err := <-urgent:
					if err != nil {
						t.Error(err)
					}
				default:
					t.Error("it waits")
				}
				close(turn)
				// Both may have written the same.
				if err := <-patient; err != nil && !IsChanged(err) {
					t.Error(err)
				}
			})
		})
	}
}
