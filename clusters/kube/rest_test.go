// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// podsThrough is a source of pods whose requests are answered by a function.
func podsThrough(t *testing.T, answer roundTrip) ListWatcher {
	t.Helper()
	base, err := url.Parse("https://member.example/")
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.NewRESTClient(base, "/api/v1", rest.ClientContentConfig{
		ContentType: runtime.ContentTypeProtobuf, AcceptContentTypes: runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON,
		GroupVersion: corev1.SchemeGroupVersion,
		Negotiator:   runtime.NewClientNegotiator(scheme.Codecs.WithoutConversion(), corev1.SchemeGroupVersion),
	}, nil, &http.Client{Transport: answer})
	if err != nil {
		t.Fatal(err)
	}
	return REST(client, Resource{
		GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods"),
		NewList:              func() runtime.Object { return new(corev1.PodList) },
	})
}

func answer(code int, contentType string, body io.Reader) *http.Response {
	return &http.Response{
		StatusCode: code, Header: http.Header{"Content-Type": {contentType}},
		Body: io.NopCloser(body),
	}
}

// protobufStream renders events as an API server does.
func protobufStream(t *testing.T, events ...watch.Event) []byte {
	t.Helper()
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	if !ok {
		t.Fatal("no protobuf")
	}
	var out bytes.Buffer
	frames := streaming.NewEncoder(info.StreamSerializer.Framer.NewFrameWriter(&out), scheme.Codecs.WithoutConversion().EncoderForVersion(info.StreamSerializer.Serializer, metav1.SchemeGroupVersion))
	for _, e := range events {
		raw, err := runtime.Encode(scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion), e.Object)
		if err != nil {
			t.Fatal(err)
		}
		if err := frames.Encode(&metav1.WatchEvent{Type: string(e.Type), Object: runtime.RawExtension{Raw: raw}}); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

const (
	protobufWatch = "application/vnd.kubernetes.protobuf;stream=watch"
	jsonPod       = `{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"namespace":"ns","name":"a","resourceVersion":"6"}}}`
)

// read drains a stream.
func read(s Stream) (events []Event, err error) {
	defer s.Stop()
	for e := range s.Events() {
		events = append(events, e)
	}
	return events, s.Err()
}

func TestStreamsOfBothEncodings(t *testing.T) {
	for name, tc := range map[string]struct {
		contentType string
		body        []byte
	}{
		"protobuf":            {protobufWatch, protobufStream(t, watch.Event{Type: watch.Added, Object: pod("a", 6, "1")})},
		"JSON":                {"application/json;stream=watch", []byte(jsonPod)},
		"JSON, as old fronts": {"application/json", []byte(jsonPod)},
	} {
		t.Run(name, func(t *testing.T) {
			var asked *http.Request
			source := podsThrough(t, func(r *http.Request) (*http.Response, error) {
				asked = r
				return answer(200, tc.contentType, bytes.NewReader(tc.body)), nil
			})
			before := time.Now()
			stream, err := source.Watch(t.Context(), metav1.ListOptions{ResourceVersion: "5"})
			if err != nil {
				t.Fatal(err)
			}
			events, err := read(stream)
			if err != nil || len(events) != 1 {
				t.Fatalf("%d events, then %v", len(events), err)
			}
			p, ok := events[0].Object.(*corev1.Pod)
			if !ok || p.Name != "a" || p.ResourceVersion != "6" || events[0].Type != watch.Added || events[0].Arrival.Before(before) {
				t.Errorf("event %+v", events[0])
			}
			if q := asked.URL.Query(); q.Get("watch") != "true" || q.Get("resourceVersion") != "5" || asked.URL.Path != "/api/v1/pods" {
				t.Errorf("asked for %s", asked.URL)
			}
		})
	}
}

func TestHowStreamsEnd(t *testing.T) {
	whole := protobufStream(t, watch.Event{Type: watch.Added, Object: pod("a", 6, "1")})
	reset := errors.New("connection reset by peer")
	for name, tc := range map[string]struct {
		contentType string
		body        io.Reader
		want        func(error) bool
	}{
		"in order":           {protobufWatch, bytes.NewReader(whole), func(err error) bool { return err == nil }},
		"within a frame":     {protobufWatch, bytes.NewReader(whole[:len(whole)-3]), func(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) }},
		"within a header":    {protobufWatch, bytes.NewReader(whole[:2]), func(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) }},
		"by the connection":  {protobufWatch, io.MultiReader(bytes.NewReader(whole), failing{reset}), func(err error) bool { return errors.Is(err, reset) }},
		"JSON within object": {"application/json", strings.NewReader(jsonPod[:40]), func(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) }},
		"no JSON":            {"application/json", strings.NewReader("<html>"), func(err error) bool { return errors.Is(err, ErrUndecodable) }},
		"no protobuf":        {protobufWatch, strings.NewReader("\x00\x00\x00\x04abcd"), func(err error) bool { return errors.Is(err, ErrUndecodable) }},
		"endless frame":      {protobufWatch, strings.NewReader("\x7f\xff\xff\xff" + strings.Repeat("x", 17<<20)), func(err error) bool { return errors.Is(err, ErrUndecodable) }},
	} {
		t.Run(name, func(t *testing.T) {
			source := podsThrough(t, func(*http.Request) (*http.Response, error) { return answer(200, tc.contentType, tc.body), nil })
			stream, err := source.Watch(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := read(stream); !tc.want(err) {
				t.Errorf("ended with %v", err)
			}
		})
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestUndecodableObjectIsMarked(t *testing.T) {
	for _, body := range []string{
		`{"type":"ADDED","object":{"kind":"Teapot","apiVersion":"v9"}}`,
		`{"type":"ADDED","object":null}`,
		`{"type":"ADDED"}`,
		`{"type":"ADDED","object":"text"}`,
	} {
		source := podsThrough(t, func(*http.Request) (*http.Response, error) {
			return answer(200, "application/json", strings.NewReader(body)), nil
		})
		stream, err := source.Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if events, _ := read(stream); len(events) != 1 || !errors.Is(events[0].Err, ErrUndecodable) {
			t.Errorf("%s: events %+v", body, events)
		}
	}
}

func TestRefusedWatches(t *testing.T) {
	status := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410,"message":"too old"}`
	for name, tc := range map[string]struct {
		code int
		body string
		want func(error) bool
	}{
		"status object":      {410, status, apierrors.IsResourceExpired},
		"status, other HTTP": {500, status, apierrors.IsResourceExpired},
		"plain 410":          {410, "gone", apierrors.IsGone},
		"plain 401":          {401, "who?", apierrors.IsUnauthorized},
		"plain 403":          {403, "", apierrors.IsForbidden},
		"plain 404":          {404, "<html>", apierrors.IsNotFound},
		"a pod":              {500, `{"kind":"Pod","apiVersion":"v1"}`, apierrors.IsInternalError},
		"429": {429, "", func(err error) bool {
			return apierrors.IsTooManyRequests(err) && RetryAfter(err) == 3*time.Second
		}},
	} {
		t.Run(name, func(t *testing.T) {
			source := podsThrough(t, func(*http.Request) (*http.Response, error) {
				resp := answer(tc.code, "application/json", strings.NewReader(tc.body))
				resp.Header.Set("Retry-After", "3")
				return resp, nil
			})
			if _, err := source.Watch(t.Context(), metav1.ListOptions{}); !tc.want(err) {
				t.Errorf("error %v (%T)", err, err)
			}
		})
	}
}

func TestStopEndsABlockedStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		defer w.Close()
		source := podsThrough(t, func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: r}, nil
		})
		stream, err := source.Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // it reads
		stream.Stop()
		stream.Stop()
		if _, open := <-stream.Events(); open {
			t.Error("an event after the stop")
		}
	})
}

func TestListsOfBothEncodings(t *testing.T) {
	list := podList(5, "next", pod("a", 4, "1"))
	for _, contentType := range []string{runtime.ContentTypeProtobuf, runtime.ContentTypeJSON} {
		info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), contentType)
		body, err := runtime.Encode(scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion), list)
		if err != nil {
			t.Fatal(err)
		}
		source := podsThrough(t, func(*http.Request) (*http.Response, error) {
			return answer(200, contentType, bytes.NewReader(body)), nil
		})
		read, err := source.List(t.Context(), metav1.ListOptions{Limit: 500})
		if got, ok := read.(*corev1.PodList); err != nil || !ok || len(got.Items) != 1 || got.Items[0].Name != "a" || got.Continue != "next" || got.ResourceVersion != "5" {
			t.Errorf("%s: %+v, %v", contentType, read, err)
		}
	}
}

func TestListsThatCannotBeRead(t *testing.T) {
	reset := errors.New("connection reset by peer")
	for name, tc := range map[string]struct {
		body io.Reader
		want func(error) bool
	}{
		"a failure with 200": {strings.NewReader(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}`), apierrors.IsResourceExpired},
		"cut":                {io.MultiReader(strings.NewReader(`{"kind":"PodL`), failing{reset}), func(err error) bool { return errors.Is(err, reset) }},
		"half":               {strings.NewReader(`{"kind":"PodList","apiVersion":"v1","items":[`), func(err error) bool { return err != nil }},
		"empty":              {strings.NewReader(""), func(err error) bool { return err != nil }},
		"too large":          {io.LimitReader(spaces{}, 1<<40), func(err error) bool { return errors.Is(err, ErrTooLarge) }},
	} {
		t.Run(name, func(t *testing.T) {
			source := podsThrough(t, func(*http.Request) (*http.Response, error) { return answer(200, runtime.ContentTypeJSON, tc.body), nil })
			if read, err := source.List(t.Context(), metav1.ListOptions{}); !tc.want(err) {
				t.Errorf("%v, %v", read, err)
			}
		})
	}
}

// spaces is an answer without an end.
type spaces struct{}

func (spaces) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

func TestListsAreNotRetriedBelowTheLoop(t *testing.T) {
	requests := 0
	source := podsThrough(t, func(*http.Request) (*http.Response, error) {
		requests++
		resp := answer(429, "application/json", strings.NewReader(""))
		resp.Header.Set("Retry-After", "1")
		return resp, nil
	})
	_, err := source.List(t.Context(), metav1.ListOptions{Limit: 500})
	if !apierrors.IsTooManyRequests(err) || RetryAfter(err) != time.Second || requests != 1 {
		t.Errorf("%d requests, %v, Retry-After %v", requests, err, RetryAfter(err))
	}
}
