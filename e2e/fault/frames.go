// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"

	"tributary.dev/tributary/e2e/cluster"
)

var errUnknownEncoding = errors.New("the answer is in an encoding that is not known here")

// encoding returns how an answer is encoded.
func encoding(resp *http.Response) (runtime.SerializerInfo, error) {
	mediaType, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil {
		return runtime.SerializerInfo{}, err
	}
	info, known := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), mediaType)
	if !known {
		return info, fmt.Errorf("%w: %s", errUnknownEncoding, mediaType)
	}
	return info, nil
}

// hideFromList takes objects out of a list.
func hideFromList(resp *http.Response, hide func(metav1.Object) bool) error {
	info, err := encoding(resp)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return err
	}
	list, kind, err := info.Serializer.Decode(body, nil, nil)
	if err != nil {
		return err
	}
	list.GetObjectKind().SetGroupVersionKind(*kind)
	items, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	left := make([]runtime.Object, 0, len(items))
	for _, item := range items {
		if m, err := meta.Accessor(item); err != nil || !hide(m) {
			left = append(left, item)
		}
	}
	if err := meta.SetList(list, left); err != nil {
		return err
	}
	if body, err = runtime.Encode(info.Serializer, list); err != nil {
		return err
	}
	cluster.SetBody(resp, body)
	return nil
}

// frames reads a watch event by event, and sends what the fault makes of
// each. It needs no goroutine of its own.
type frames struct {
	fault   *Fault // nil: all pass
	codec   runtime.Serializer
	events  streaming.Decoder
	encoder streaming.Encoder
	out     bytes.Buffer
	before  *metav1.WatchEvent // the last event of an object
	ended   atomic.Bool
	once    sync.Once
	closed  func()
	// frozen is true for a watch that tells nothing any more; done is closed with it.
	frozen atomic.Bool
	done   chan struct{}
}

// watch wraps a watch, so that it can be edited and ended.
func (p *Proxy) watch(resp *http.Response, fault *Fault) error {
	info, err := encoding(resp)
	if err != nil {
		return err
	}
	w := &frames{fault: fault, codec: info.Serializer, done: make(chan struct{})}
	w.events = streaming.NewDecoder(info.StreamSerializer.Framer.NewFrameReader(resp.Body), info.StreamSerializer.Serializer)
	w.encoder = streaming.NewEncoder(info.StreamSerializer.Framer.NewFrameWriter(&w.out), info.StreamSerializer.Serializer)
	stop := func() bool { return true }
	if fault != nil && fault.Life > 0 {
		stop = time.AfterFunc(fault.Life, w.end).Stop
	}
	w.closed = func() {
		stop()
		p.mu.Lock()
		delete(p.watches, w)
		p.mu.Unlock()
	}
	p.mu.Lock()
	p.watches[w] = true
	p.mu.Unlock()
	resp.Body, resp.ContentLength = w, -1
	resp.Header.Del("Content-Length")
	return nil
}

// end ends the watch in good order.
func (w *frames) end() {
	w.ended.Store(true)
	_ = w.Close()
}

// Close implements io.Closer; it ends a Read that waits.
func (w *frames) Close() (err error) {
	w.once.Do(func() {
		w.closed()
		close(w.done)
		err = w.events.Close()
	})
	return err
}

// Read implements io.Reader.
func (w *frames) Read(p []byte) (int, error) {
	for w.out.Len() == 0 {
		var e metav1.WatchEvent
		if _, _, err := w.events.Decode(nil, &e); err != nil {
			if w.ended.Load() || errors.Is(err, io.EOF) {
				return 0, io.EOF
			}
			return 0, err
		}
		if w.frozen.Load() {
			<-w.done
			return 0, io.EOF
		}
		if err := w.pass(&e); err != nil {
			return 0, err
		}
	}
	return w.out.Read(p)
}

// pass sends one event, or what the fault makes of it.
func (w *frames) pass(e *metav1.WatchEvent) error {
	isObject := e.Type == string(watch.Added) || e.Type == string(watch.Modified) || e.Type == string(watch.Deleted)
	if w.fault == nil || !isObject {
		return w.encoder.Encode(e)
	}
	object, kind, err := w.codec.Decode(e.Object.Raw, nil, nil)
	if err != nil {
		return err
	}
	m, err := meta.Accessor(object)
	if err != nil {
		return err
	}
	if w.fault.Hide != nil && w.fault.Hide(m) {
		return nil
	}
	out := []*metav1.WatchEvent{e}
	if w.fault.Echo {
		out = append(out, e)
		if w.before != nil {
			out = append(out, w.before)
		}
		mark, err := bookmark(w.codec, *kind, m.GetResourceVersion())
		if err != nil {
			return err
		}
		out = append(out, mark)
		w.before = e
	}
	for _, e := range out {
		if err := w.encoder.Encode(e); err != nil {
			return err
		}
	}
	return nil
}

// bookmark makes the event that tells a revision without an object.
func bookmark(codec runtime.Serializer, kind schema.GroupVersionKind, revision string) (*metav1.WatchEvent, error) {
	empty, err := scheme.Scheme.New(kind)
	if err != nil {
		return nil, err
	}
	empty.GetObjectKind().SetGroupVersionKind(kind)
	m, err := meta.Accessor(empty)
	if err != nil {
		return nil, err
	}
	m.SetResourceVersion(revision)
	raw, err := runtime.Encode(codec, empty)
	return &metav1.WatchEvent{Type: string(watch.Bookmark), Object: runtime.RawExtension{Raw: raw}}, err
}
