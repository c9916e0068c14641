package faults

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"mime"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/watch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
)

// codec reads the events of a watch one by one, without a look into them. A frame is all that is sent for one event.
type codec interface {
	read(from io.Reader) (frame []byte, err error)
	// failure returns the event that ends a watch.
	failure(status *metav1.Status) (frame []byte, err error)
}

// codecOf returns the codec of a watch: clients of typed objects ask for protobuf, those of custom ones for JSON.
func codecOf(contentType string) (codec, error) {
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return nil, fmt.Errorf("watch with Content-Type %q: %w", contentType, err)
	}
	switch media {
	case runtime.ContentTypeJSON:
		return &jsonLines{}, nil
	case runtime.ContentTypeProtobuf:
		return protobufFrames{}, nil
	}
	return nil, fmt.Errorf("watch with Content-Type %q, which this proxy cannot read", contentType)
}

// jsonLines are one JSON object after the other.
type jsonLines struct{ decoder *json.Decoder }

func (j *jsonLines) read(from io.Reader) ([]byte, error) {
	if j.decoder == nil {
		j.decoder = json.NewDecoder(from)
	}
	var frame json.RawMessage
	err := j.decoder.Decode(&frame)
	return append(frame, '\n'), err
}

func (*jsonLines) failure(status *metav1.Status) ([]byte, error) {
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	object, err := json.Marshal(status)
	if err != nil {
		return nil, err
	}
	frame, err := json.Marshal(metav1.WatchEvent{Type: string(watch.Error), Object: runtime.RawExtension{Raw: object}})
	return append(frame, '\n'), err
}

// protobufFrames are messages, each after its length in four bytes.
type protobufFrames struct{}

const (
	lengthSize = 4
	// maxFrame is more than etcd takes for an object.
	maxFrame = 64 << 20
)

func (protobufFrames) read(from io.Reader) ([]byte, error) {
	frame := make([]byte, lengthSize)
	if _, err := io.ReadFull(from, frame); err != nil {
		return nil, err
	}
	length := binary.BigEndian.Uint32(frame)
	if length > maxFrame {
		return nil, fmt.Errorf("an event of %d bytes: this is no watch in protobuf", length)
	}
	frame = append(frame, make([]byte, length)...)
	if _, err := io.ReadFull(from, frame[lengthSize:]); err != nil {
		// The API server has gone in the middle of an event; an end of file would be an end as it should be.
		return nil, fmt.Errorf("read an event: %w", err)
	}
	return frame, nil
}

func (protobufFrames) failure(status *metav1.Status) ([]byte, error) {
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	var object bytes.Buffer
	if err := protobuf.NewSerializer(clientgoscheme.Scheme, clientgoscheme.Scheme).Encode(status, &object); err != nil {
		return nil, err
	}
	event := metav1.WatchEvent{Type: string(watch.Error), Object: runtime.RawExtension{Raw: object.Bytes()}}
	message, err := event.Marshal()
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(message))), message...), err
}
