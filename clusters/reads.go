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

// askWritten has all read that is written by hand for a Service: the slices that name it, if
// the API has any, and then the Endpoints of its name. The revision is that of the slices.
func (m *Member) askWritten(service evidence.Read) {
	var all evidence.Written
	var revision uint64
	answered := func(outcome kube.Outcome, err error) {
		answer := evidence.Answer{Read: service, Outcome: outcomes[outcome], Revision: revision}
		switch {
		case outcome == kube.There && all.Endpoints == nil && len(all.Slices) == 0:
			answer.Outcome = evidence.NotFound
		case outcome == kube.There:
			answer.Object = all
		}
		m.answered(answer, err)
	}
	endpoints := kube.Reading{
		Resource: kube.Endpoints, Key: service.Key,
		Answered: func(found runtime.Object, outcome kube.Outcome, err error) {
			if e, ok := found.(*corev1.Endpoints); ok && outcome == kube.There {
				v := m.decoder.Endpoints(e)
				all.Endpoints = &v
			}
			if outcome == kube.Gone {
				outcome, err = kube.There, nil
			}
			answered(outcome, err)
		},
	}
	if !m.hasSlices() {
		m.reader.Ask(endpoints)
		return
	}
	m.reader.Ask(kube.Reading{
		Resource: kube.EndpointSlices, Key: service.Key, Selector: handWrittenSlices + "," + syncer.LabelServiceName + "=" + service.Key.Name,
		Answered: func(found runtime.Object, outcome kube.Outcome, err error) {
			list, ok := found.(*discoveryv1.EndpointSliceList)
			if !ok || outcome != kube.There {
				answered(m.ofSlices(outcome), err)
				return
			}
			for i := range list.Items {
				all.Slices = append(all.Slices, m.decoder.Slice(&list.Items[i]))
			}
			revision = store.Revision(list.ResourceVersion)
			m.reader.Ask(endpoints)
		},
	})
}

// ofSlices is what came of a question for slices: where the API says that it has none, nobody
// may ask.
func (m *Member) ofSlices(outcome kube.Outcome) kube.Outcome {
	if outcome == kube.Failed && m.manual.lacksSlices() {
		return kube.Refused
	}
	return outcome
}

// hasSlices reports whether the version of the API is one that has EndpointSlices.
func (m *Member) hasSlices() bool {
	s := m.hold()
	if s == nil {
		return true
	}
	defer s.Release()
	v := s.Version()
	return v.Git == "" || v.AtLeast(slicesMajor, slicesMinor)
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
