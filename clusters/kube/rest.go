// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// REST returns a source that reads a resource through a client of its group,
// and through that client's transport. Nothing is retried below the loop: it
// alone decides how long to wait.
func REST(client *rest.RESTClient, resource Resource) ListWatcher {
	r := restSource{client: client, resource: resource}
	return ListWatcher{List: r.list, Watch: r.watch}
}

// streamTypes are what a watch may answer in, the cheaper one first; a server or
// a proxy that has only JSON answers in JSON.
const streamTypes = "application/vnd.kubernetes.protobuf;stream=watch, application/json;stream=watch, application/json"

type restSource struct {
	client   *rest.RESTClient
	resource Resource
}

func (r restSource) request(opts metav1.ListOptions) *rest.Request {
	return r.client.Get().
		NamespaceIfScoped(r.resource.Namespace, r.resource.Namespace != "").
		Resource(r.resource.Resource).
		VersionedParams(&opts, scheme.ParameterCodec).
		MaxRetries(0)
}

// pageBytes is how many bytes one page of a list may have. 500 ordinary pods have 5 MB
// and the largest object that an API server stores by default has 1.5 MB; it is what a
// member can make us hold at a time, in memory twice: as it came and decoded.
const pageBytes = 8 << 20

// list reads one page.
func (r restSource) list(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	return readObject(ctx, r.request(opts), "a list of "+r.resource.Resource, pageBytes, r.resource.NewList())
}

// watch opens a stream itself rather than through rest.Request.Watch, which
// reports a dead connection as an empty stream, mixes undecodable objects with
// broken connections, and stamps nothing.
func (r restSource) watch(ctx context.Context, opts metav1.ListOptions) (Stream, error) {
	opts.Watch = true
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.request(opts).URL().String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", streamTypes)
	client := r.client.Client
	if client == nil {
		client = http.DefaultClient
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		defer drain(resp.Body)
		return nil, r.statusError(resp)
	}
	events, err := r.decoder(resp)
	if err != nil {
		drain(resp.Body)
		return nil, err
	}
	return newRestStream(resp.Body, events), nil
}

// decoder picks the decoding of a stream by its content type.
func (r restSource) decoder(resp *http.Response) (*eventDecoder, error) {
	media, params, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil {
		return nil, fmt.Errorf("%w: content type: %w", ErrUndecodable, err)
	}
	negotiator := runtime.NewClientNegotiator(scheme.Codecs.WithoutConversion(), r.resource.GroupVersion())
	object, event, framer, err := negotiator.StreamDecoder(media, params)
	if err != nil {
		return nil, fmt.Errorf("%w: content type %q", ErrUndecodable, media)
	}
	body := &trackedBody{ReadCloser: resp.Body}
	return &eventDecoder{
		body:   body,
		events: streaming.NewDecoder(framer.NewFrameReader(body), event),
		object: object,
	}, nil
}

// statusError turns an answer that is not 200 into the API's error.
func (r restSource) statusError(resp *http.Response) error {
	const limit = 64 << 10
	body, _ := io.ReadAll(io.LimitReader(resp.Body, limit))
	if status := decodeStatus(body); status != nil {
		return apierrors.FromObject(status)
	}
	seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
	return apierrors.NewGenericServerResponse(resp.StatusCode, "watch", r.resource.GroupResource(), "", "", seconds, true)
}

// decodeStatus reads a failure in either encoding; nil when it is something else.
func decodeStatus(body []byte) *metav1.Status {
	if obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil); err == nil {
		if status, ok := obj.(*metav1.Status); ok && status.Status == metav1.StatusFailure {
			return status
		}
		return nil
	}
	var status metav1.Status
	if json.Unmarshal(body, &status) == nil && status.Kind == "Status" && status.Status == metav1.StatusFailure {
		return &status
	}
	return nil
}

func drain(body io.ReadCloser) {
	const limit = 64 << 10
	_, _ = io.CopyN(io.Discard, body, limit)
	_ = body.Close()
}
