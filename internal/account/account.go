// Package account finds out which service accounts limit the Secrets that their pods may refer to.
package account

import (
	"context"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"confrev.io/confrev/internal/metadata"
)

// EnforceMountableSecrets is the annotation that makes the API server refuse pods that refer to Secrets which their service account
// does not list. The API server checks this after pins are resolved, and no account lists revisions. The annotation is deprecated,
// but Kubernetes 1.36 still enforces it:
// https://kubernetes.io/docs/concepts/security/service-accounts/#enforce-mountable-secrets
const EnforceMountableSecrets = "kubernetes.io/enforce-mountable-secrets"

// Accounts reports which service accounts enforce their lists of mountable Secrets.
type Accounts struct {
	live client.Reader
	now  func() time.Time
	// read caches answers for the duration fresh, so that the many workloads of one account cost one request.
	read *lru.Cache
}

// fresh is how long an answer about a service account is used.
const fresh = 10 * time.Second

type answer struct {
	at       time.Time
	enforces bool
}

// New returns Accounts that read service accounts from the API server.
func New(live client.Reader, now func() time.Time) *Accounts {
	return &Accounts{live: live, now: now, read: lru.New(1000)}
}

// Enforces reports whether the pods of an account may use only the Secrets that the account lists. It returns false, and logs the
// reason, if confrev may not read the account.
func (a *Accounts) Enforces(ctx context.Context, name types.NamespacedName) (bool, error) {
	if kept, ok := a.read.Get(name); ok && a.now().Sub(kept.(answer).at) < fresh {
		return kept.(answer).enforces, nil
	}
	account := metadata.New(corev1.SchemeGroupVersion.WithKind("ServiceAccount"))
	err := a.live.Get(ctx, name, account)
	switch {
	case apierrors.IsForbidden(err):
		log.FromContext(ctx).Info("cannot see whether a service account limits its pods' Secrets", "serviceAccount", name.String(), "because", err.Error())
	case err != nil && !apierrors.IsNotFound(err):
		return false, fmt.Errorf("look up service account %s: %w", name, err)
	}
	// The API server does not enforce a value that cannot be parsed, either.
	enforces, _ := strconv.ParseBool(account.Annotations[EnforceMountableSecrets])
	a.read.Add(name, answer{a.now(), enforces})
	return enforces, nil
}
