// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/client-go/kubernetes/scheme"
)

// editAnswer applies forget to every object in a response: one object, a list, or each event of a watch, in JSON or
// protobuf. Responses without an object of a known kind pass unchanged.
func editAnswer(resp *http.Response, forget func(runtime.Object)) error {
	mediaType, params, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil {
		return nil // no type, no object
	}
	info, known := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), mediaType)
	if !known || params["as"] != "" {
		return nil // text, or a table
	}
	if params["stream"] == "watch" || isJSONWatch(resp) {
		resp.Body = newWatchEditor(resp.Body, info, forget)
		resp.Header.Del("Content-Length")
		resp.ContentLength = -1
		return nil
	}
	body, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return err
	}
	if edited, ok := editObject(body, info.Serializer, forget); ok {
		body = edited
	}
	SetBody(resp, body)
	return nil
}

// SetBody replaces the body of an answer.
func SetBody(resp *http.Response, body []byte) {
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	resp.Header.Set("Content-Length", strconv.Itoa(len(body)))
}

// isJSONWatch: an apiserver marks a protobuf stream in its type, a JSON stream not.
func isJSONWatch(resp *http.Response) bool {
	watch := resp.Request.URL.Query().Get("watch")
	return resp.StatusCode == http.StatusOK && (watch == "true" || watch == "1")
}

// editObject returns the edited form of one encoded object or list, and false if it is of no known kind.
func editObject(raw []byte, codec runtime.Serializer, forget func(runtime.Object)) ([]byte, bool) {
	object, kind, err := codec.Decode(raw, nil, nil)
	if err != nil {
		return nil, false
	}
	object.GetObjectKind().SetGroupVersionKind(*kind)
	if meta.IsListType(object) {
		err = meta.EachListItem(object, func(item runtime.Object) error {
			forget(item)
			return nil
		})
	} else {
		forget(object)
	}
	if err != nil {
		return nil, false
	}
	edited, err := runtime.Encode(codec, object)
	return edited, err == nil
}

// watchEditor reads a watch stream event by event, and returns each as soon as it is edited. It needs no goroutine.
type watchEditor struct {
	events  streaming.Decoder
	encoder streaming.Encoder
	codec   runtime.Serializer
	forget  func(runtime.Object)
	out     bytes.Buffer
}

func newWatchEditor(body io.ReadCloser, info runtime.SerializerInfo, forget func(runtime.Object)) *watchEditor {
	stream := info.StreamSerializer
	w := &watchEditor{codec: info.Serializer, forget: forget}
	w.events = streaming.NewDecoder(stream.Framer.NewFrameReader(body), stream.Serializer)
	w.encoder = streaming.NewEncoder(stream.Framer.NewFrameWriter(&w.out), stream.Serializer)
	return w
}

// Read implements io.Reader.
func (w *watchEditor) Read(p []byte) (int, error) {
	for w.out.Len() == 0 {
		if err := w.next(); err != nil {
			return 0, err
		}
	}
	return w.out.Read(p)
}

func (w *watchEditor) next() error {
	var event metav1.WatchEvent
	if _, _, err := w.events.Decode(nil, &event); err != nil {
		if errors.Is(err, io.EOF) {
			return io.EOF
		}
		return fmt.Errorf("front: read an event: %w", err)
	}
	if edited, ok := editObject(event.Object.Raw, w.codec, w.forget); ok {
		event.Object.Raw = edited
	}
	return w.encoder.Encode(&event)
}

// Close implements io.Closer; it ends a Read that waits.
func (w *watchEditor) Close() error { return w.events.Close() }
