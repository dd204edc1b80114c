// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

func TestClock(t *testing.T) {
	var clock Clock
	if _, known := clock.Behind(); known {
		t.Error("known before anybody said")
	}
	date := ""
	client := &http.Client{Transport: clock.Wrap(answers(func(w http.ResponseWriter) { w.Header().Set("Date", date) }))}
	for _, test := range []struct {
		date string
		want time.Duration
	}{
		{time.Now().Add(time.Hour).UTC().Format(http.TimeFormat), -time.Hour},
		{time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat), time.Hour},
		{"yesterday", time.Hour}, // says nothing: what was known stays
	} {
		date = test.date
		response, err := client.Get("http://member.example")
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if behind, known := clock.Behind(); !known || behind < test.want-time.Second || behind > test.want+10*time.Second {
			t.Errorf("%q: behind by %v, %v", test.date, behind, known)
		}
	}
}

// answers is a transport that answers everything.
type answers func(http.ResponseWriter)

func (a answers) RoundTrip(*http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	a(w)
	return w.Result(), nil
}
