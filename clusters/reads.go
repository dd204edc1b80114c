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
	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

//lint:file-ignore SA1019 core/v1 Endpoints are what members hold

// ask has single objects read, and takes what comes of it into the evidence.
func (m *Member) ask(objects []evidence.Read) {
	for _, object := range objects {
		if object.Kind == evidence.Manual {
			m.askWritten(object)
			continue
		}
		m.reader.Ask(kube.Reading{
			Resource: resources[object.Kind], Key: object.Key,
			Answered: func(found runtime.Object, outcome kube.Outcome, err error) {
				if object.Kind == evidence.Slices {
					outcome = m.ofSlices(outcome)
				}
				answer := evidence.Answer{Read: object, Outcome: outcomes[outcome]}
				if outcome == kube.There {
					answer.Object = decoded(m.decoder, found)
				}
				m.answered(answer, err)
			},
		})
	}
}

func (m *Member) answered(answer evidence.Answer, err error) {
	if err != nil {
		m.log.Debug("object could not be read", "kind", answer.Kind, "name", answer.Key, "error", err)
	}
	m.step(answer, time.Now())
}

// askWritten has the objects read, one after the other, that hand-written endpoints of a
// Service stood in.
func (m *Member) askWritten(service evidence.Read) {
	var all evidence.Written
	answered := func(outcome evidence.Outcome, err error) {
		m.answered(evidence.Answer{Read: service, Outcome: outcome, Object: all}, err)
	}
	var next func(names []string)
	next = func(names []string) {
		if len(names) == 0 {
			outcome := evidence.There
			if all.Endpoints == nil && len(all.Slices) == 0 {
				outcome = evidence.NotFound
			}
			answered(outcome, nil)
			return
		}
		reading := kube.Reading{Resource: kube.Endpoints, Key: service.Key}
		if names[0] != syncer.WrittenInEndpoints {
			reading.Resource, reading.Key.Name = kube.EndpointSlices, names[0]
		}
		reading.Answered = func(found runtime.Object, outcome kube.Outcome, err error) {
			switch outcome {
			case kube.There:
			case kube.Gone:
				all.NotFound = append(all.NotFound, names[0])
			default:
				answered(outcomes[m.ofSlices(outcome)], err)
				return
			}
			switch v := decoded(m.decoder, found).(type) {
			case store.Versioned[store.Endpoints]:
				all.Endpoints = &v
			case store.Versioned[store.Slice]: // it may be another's by now
				if v.Object.ServiceKey() == service.Key && !v.Object.Derived {
					all.Slices = append(all.Slices, v)
				}
			}
			next(names[1:])
		}
		m.reader.Ask(reading)
	}
	next(service.Objects)
}

// ofSlices is what came of a question for slices: where the API says that it has none, nobody
// may ask.
func (m *Member) ofSlices(outcome kube.Outcome) kube.Outcome {
	if outcome == kube.Failed && m.manual.lacksSlices() {
		return kube.Refused
	}
	return outcome
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
