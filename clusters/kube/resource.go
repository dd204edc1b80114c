// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

//lint:file-ignore SA1019 v1 Endpoints are what old clusters hold

import (
	"bytes"
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"tributary.dev/tributary/internal/wire"
)

// Object is any object that a cluster serves.
type Object interface {
	runtime.Object
	metav1.Object
	protobuf
}

type protobuf interface {
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

// Resource names what is read.
type Resource struct {
	schema.GroupVersionResource
	empty Object
}

// What clusters are asked for.
var (
	Services       = Resource{corev1.SchemeGroupVersion.WithResource("services"), &corev1.Service{}}
	Pods           = Resource{corev1.SchemeGroupVersion.WithResource("pods"), &corev1.Pod{}}
	Namespaces     = Resource{corev1.SchemeGroupVersion.WithResource("namespaces"), &corev1.Namespace{}}
	Secrets        = Resource{corev1.SchemeGroupVersion.WithResource("secrets"), &corev1.Secret{}}
	Endpoints      = Resource{corev1.SchemeGroupVersion.WithResource("endpoints"), &corev1.Endpoints{}}
	EndpointSlices = Resource{discoveryv1.SchemeGroupVersion.WithResource("endpointslices"), &discoveryv1.EndpointSlice{}}
)

// new is an object without content.
func (r Resource) new() Object { return r.empty.DeepCopyObject().(Object) }

// Object makes an object of its content in protobuf.
func (r Resource) Object(content []byte) (Object, error) {
	object := r.new()
	return object, object.Unmarshal(content)
}

// content returns the content of an object, or with the suffix List of a list, in protobuf, from
// which both are read as far as needed. An answer in JSON, of a server or a proxy that has nothing
// else, is converted. A Status is an error.
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
	switch own := reflect.TypeOf(r.empty).Elem().Name() + suffix; {
	case err != nil:
	case kind == own && version == r.GroupVersion().String():
		return content, nil
	case kind == "Status":
		var status metav1.Status
		if err = status.Unmarshal(content); err == nil {
			return nil, apierrors.FromObject(&status)
		}
	default:
		err = fmt.Errorf("it is a %.64q of %.64q and no %s", kind, version, own)
	}
	return nil, fmt.Errorf("%w: %w", ErrUndecodable, err)
}
