package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	kjson "sigs.k8s.io/json"
)

const (
	// longestReview is the length of the longest review that is read, in bytes. It is the limit of controller-runtime, too: an API server
	// accepts objects of up to 3 MiB, and adds defaults and managed fields.
	longestReview = 7 << 20
	// ordinaryReview is longer than the reviews of most pods, and about what a connection takes anyway.
	ordinaryReview = 64 << 10
	// longestUID is longer than the UID of any review, which its answer repeats.
	longestUID = 128
)

// bounded serves an admission webhook that any client may call, and limits how much memory its clients take.
//
// Reviews are decoded a few at a time. A large one also waits for its turn before it is read, and keeps it until its answer is written,
// which lasts as long as its client likes. An ordinary one does not, or a few slow clients would keep out the API server.
type bounded struct {
	webhook         *admission.Webhook
	ordinary, large turns
	// patience is how long a request waits for its turn, then for its body, and then for its client to read the answer.
	patience time.Duration
}

// newBounded returns a handler that needs at most about 200 MiB for reviews whose turn it is: each takes about six times its length, and
// what its references resolve to.
func newBounded(handler admission.Handler) *bounded {
	return &bounded{webhook: &admission.Webhook{Handler: handler}, ordinary: make(turns, 8), large: make(turns, 2), patience: 10 * time.Second}
}

// turns has an element for each request whose turn it is.
type turns chan struct{}

var errBusy = errors.New("confrev is busy with other reviews: try again")

// take waits for a turn, and calls do in it.
func (t turns) take(ctx context.Context, do func() error) error {
	select {
	case t <- struct{}{}:
	case <-ctx.Done():
		return errBusy
	}
	defer func() { <-t }()
	return do()
}

// ServeHTTP answers a review.
func (b *bounded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), b.patience)
	defer cancel()
	err := b.serve(ctx, w, r)
	status := http.StatusBadRequest
	switch tooLong := (&http.MaxBytesError{}); {
	case err == nil:
		return
	case errors.As(err, &tooLong):
		status, err = http.StatusRequestEntityTooLarge, fmt.Errorf("the review is longer than %d bytes", tooLong.Limit)
	case errors.Is(err, errBusy):
		status = http.StatusServiceUnavailable
	}
	http.Error(w, err.Error(), status)
}

func (b *bounded) serve(ctx context.Context, w http.ResponseWriter, r *http.Request) (err error) {
	if r.ContentLength > longestReview {
		return &http.MaxBytesError{Limit: longestReview}
	}
	var body, answer []byte
	// API servers say how long a review is.
	ordinary := r.ContentLength >= 0 && r.ContentLength <= ordinaryReview
	if ordinary {
		if body, err = b.read(w, r); err != nil {
			return err
		}
		err = b.ordinary.take(ctx, func() (err error) {
			answer, err = b.answer(ctx, body)
			return err
		})
		if err != nil {
			return err
		}
		if len(answer) <= ordinaryReview {
			return b.write(w, answer)
		}
		// So that requests that wait hold little, the answer is dropped, and made again.
		answer = nil
	}
	return b.large.take(ctx, func() (err error) {
		if !ordinary {
			if body, err = b.read(w, r); err != nil {
				return err
			}
		}
		if answer, err = b.answer(ctx, body); err != nil {
			return err
		}
		return b.write(w, answer)
	})
}

func (b *bounded) read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(b.patience)); err != nil {
		return nil, fmt.Errorf("limit the time to read: %w", err)
	}
	return io.ReadAll(http.MaxBytesReader(w, r.Body, longestReview))
}

func (b *bounded) write(w http.ResponseWriter, answer []byte) error {
	if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(b.patience)); err != nil {
		return fmt.Errorf("limit the time to write: %w", err)
	}
	// A client that no longer listens cannot be told.
	_, _ = w.Write(answer)
	return nil
}

// answer returns the answer to a review. It decodes only what the answer depends on. controller-runtime also decodes YAML, the user, and
// even an answer in the review: a list in these can take a hundred times its length.
func (b *bounded) answer(ctx context.Context, body []byte) ([]byte, error) {
	var review struct {
		Request struct {
			UID    types.UID       `json:"uid"`
			Object json.RawMessage `json:"object"`
		} `json:"request"`
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(body, &review); err != nil {
		return nil, fmt.Errorf("read an AdmissionReview: %w", err)
	}
	request := admission.Request{}
	request.UID, request.Object.Raw = review.Request.UID, review.Request.Object
	if len(request.UID) > longestUID {
		return nil, fmt.Errorf("the UID is longer than %d bytes", longestUID)
	}
	response := b.webhook.Handle(ctx, request)
	answer := admissionv1.AdmissionReview{Response: &response.AdmissionResponse}
	// The only version that the webhook's configuration has.
	answer.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind("AdmissionReview"))
	var text bytes.Buffer
	if err := json.NewEncoder(&text).Encode(answer); err != nil {
		return nil, fmt.Errorf("write an AdmissionReview: %w", err)
	}
	return text.Bytes(), nil
}
