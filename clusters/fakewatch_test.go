// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// fakeQuery is what a request asks for.
type fakeQuery struct {
	namespace  string
	fields     fields.Selector
	labels     labels.Selector
	rv         string
	initial    bool // sendInitialEvents
	limit      int
	from       int // continue
	resumeFrom int
	timeout    time.Duration // of a short watch, which checks another; 0: none
}

func newFakeQuery(r *http.Request, parts []string) fakeQuery {
	q := r.URL.Query()
	out := fakeQuery{rv: q.Get("resourceVersion"), initial: q.Get("sendInitialEvents") == "true"}
	if i := slices.Index(parts, "namespaces"); i >= 0 {
		out.namespace = parts[i+1]
	}
	out.fields, _ = fields.ParseSelector(q.Get("fieldSelector"))
	out.labels, _ = labels.Parse(q.Get("labelSelector"))
	out.limit, _ = strconv.Atoi(q.Get("limit"))
	out.from, _ = strconv.Atoi(q.Get("continue"))
	out.resumeFrom, _ = strconv.Atoi(out.rv)
	if seconds, _ := strconv.Atoi(q.Get("timeoutSeconds")); seconds < 10 {
		out.timeout = time.Duration(seconds) * time.Second
	}
	return out
}

func (q fakeQuery) matches(obj runtime.Object) bool {
	if obj == nil {
		return false
	}
	m := accessor(obj)
	set := fields.Set{"metadata.name": m.GetName(), "metadata.namespace": m.GetNamespace()}
	if p, ok := obj.(*corev1.Pod); ok {
		set["status.phase"] = string(p.Status.Phase)
	}
	return (q.namespace == "" || q.namespace == m.GetNamespace()) && q.fields.Matches(set) && q.labels.Matches(labels.Set(m.GetLabels()))
}

// watch streams events until the client leaves or the script ends it.
func (f *fakeAPI) watch(w http.ResponseWriter, r *http.Request, resource string, q fakeQuery) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	flush := w.(http.Flusher).Flush
	send := func(kind string, obj any) {
		_ = json.NewEncoder(w).Encode(map[string]any{"type": kind, "object": obj})
	}
	f.mu.Lock()
	var timeout <-chan time.Time
	if q.timeout > 0 {
		timeout = time.After(q.timeout)
	} else {
		f.opened++
		f.watches[resource]++
		f.open[resource]++
		defer func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.open[resource]--
		}()
	}
	generation, number := f.closing, f.opened
	position := q.resumeFrom
	expired := position != 0 && position < f.oldest
	if position == 0 {
		position = f.rv
		for _, obj := range f.state(resource) {
			if q.matches(obj) {
				send("ADDED", typed(resource, obj))
			}
		}
		if q.initial && f.version >= "v1.34" {
			send("BOOKMARK", fakeBookmark(resource, f.rv, map[string]string{metav1.InitialEventsAnnotationKey: "true"}))
		}
	}
	f.mu.Unlock()
	if expired {
		send("ERROR", statusObject(http.StatusGone))
		return
	}
	flush()
	for {
		f.mu.Lock()
		ended, wake := f.closing > generation, f.changed
		if timeout == nil && number <= f.muted {
			f.mu.Unlock()
			<-r.Context().Done()
			return
		}
		for _, e := range f.events {
			if e.resource == resource && e.rv > position {
				position = e.rv
				if kind, obj := q.view(e); obj != nil {
					send(kind, typed(resource, obj))
				}
			}
		}
		f.mu.Unlock()
		flush()
		if ended {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-timeout:
			return
		case <-wake:
		}
	}
}

// view is how an event looks through a selector.
func (q fakeQuery) view(e fakeEvent) (string, runtime.Object) {
	was, is := q.matches(e.old), e.kind != "DELETED" && q.matches(e.current)
	switch {
	case was && is:
		return "MODIFIED", e.current
	case is:
		return "ADDED", e.current
	case was:
		return "DELETED", e.current
	}
	return "", nil
}

func typed(resource string, obj runtime.Object) runtime.Object {
	obj = obj.DeepCopyObject()
	kind := fakeKinds[resource]
	t, _ := meta.TypeAccessor(obj)
	t.SetAPIVersion(kind[0])
	t.SetKind(kind[1])
	return obj
}

func fakeBookmark(resource string, rv int, annotations map[string]string) any {
	kind := fakeKinds[resource]
	return map[string]any{
		"kind": kind[1], "apiVersion": kind[0],
		"metadata": map[string]any{"resourceVersion": strconv.Itoa(rv), "annotations": annotations},
	}
}
