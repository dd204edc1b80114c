// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"tributary.dev/tributary/clusters/decode"
	"tributary.dev/tributary/clusters/evidence"
	"tributary.dev/tributary/clusters/kube"
)

//lint:file-ignore SA1019 core/v1 Endpoints are what members hold

// ask has single objects read, and takes what comes of it into the evidence.
func (m *Member) ask(objects []evidence.Read) {
	for _, object := range objects {
		m.reader.Ask(kube.Reading{
			Resource: resources[object.Kind], Key: object.Key,
			Answered: func(found runtime.Object, outcome kube.Outcome, err error) {
				answer := evidence.Answer{Read: object, Outcome: outcomes[outcome]}
				if outcome == kube.There {
					answer.Object = decoded(m.decoder, found)
				}
				if err != nil {
					m.log.Debug("object could not be read", "kind", object.Kind, "name", object.Key, "error", err)
				}
				m.step(answer, time.Now())
			},
		})
	}
}

var resources = map[evidence.Kind]kube.Resource{
	evidence.Services: kube.Services, evidence.Pods: kube.Pods,
	evidence.Endpoints: kube.Endpoints, evidence.Slices: kube.EndpointSlices,
}

var outcomes = map[kube.Outcome]evidence.Outcome{
	kube.Failed: evidence.Failed, kube.Gone: evidence.NotFound, kube.There: evidence.There, kube.Refused: evidence.Refused,
}

// decoded turns an object that was read into a value.
func decoded(d *decode.Decoder, object runtime.Object) any {
	switch o := object.(type) {
	case *corev1.Pod:
		return d.Pod(o)
	case *corev1.Service:
		return d.Service(o)
	case *corev1.Endpoints:
		return d.Endpoints(o)
	case *discoveryv1.EndpointSlice:
		return d.Slice(o)
	}
	return nil
}
