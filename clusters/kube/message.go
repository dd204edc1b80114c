// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"tributary.dev/tributary/internal/wire"
)

// protobuf are all objects that a cluster serves.
type protobuf interface {
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

// Object makes an object of its content in protobuf.
func (r Resource) Object(content []byte) (runtime.Object, error) {
	object := r.object.DeepCopyObject()
	return object, object.(protobuf).Unmarshal(content)
}

// answer is the content of what a request is answered with, in the room of a buffer.
func (r Resource) answer(ctx context.Context, request *rest.Request, suffix string, buffer *bytes.Buffer) ([]byte, error) {
	body, err := request.Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	buffer.Reset()
	switch _, err := buffer.ReadFrom(body); {
	case err != nil:
		return nil, err
	case buffer.Len() == 0:
		return nil, errors.New("the answer is empty") // would decode as one without content
	}
	return r.content(buffer.Bytes(), suffix)
}

// content is the content of an object, or with the suffix List of a list, in protobuf, which all are
// read from as far as they are wanted. One of a server or a proxy that has only JSON is put into
// protobuf. A Status is an error.
func (r Resource) content(text []byte, suffix string) (content []byte, err error) {
	var version, kind string
	if envelope, is := bytes.CutPrefix(text, []byte("k8s\x00")); is {
		err = wire.Walk(envelope, func(at wire.Path, _ uint64, value []byte) bool {
			switch at {
			case 0x0101: // typeMeta.apiVersion
				version = string(value)
			case 0x0102:
				kind = string(value)
			case 0x02: // raw
				content = value
			}
			return at == 0x01
		})
	} else if object, is, failed := scheme.Codecs.UniversalDeserializer().Decode(text, nil, nil); failed != nil {
		err = failed
	} else if object, can := object.(protobuf); can {
		version, kind = is.GroupVersion().String(), is.Kind
		content, err = object.Marshal()
	}
	switch {
	case err != nil:
	case kind == r.kind()+suffix && version == r.GroupVersion().String():
		return content, nil
	case kind == "Status":
		var status metav1.Status
		if err = status.Unmarshal(content); err == nil {
			return nil, apierrors.FromObject(&status)
		}
	default:
		err = fmt.Errorf("it is a %.64q of %.64q and no %s", kind, version, r.kind()+suffix)
	}
	return nil, fmt.Errorf("%w: %w", ErrUndecodable, err)
}
