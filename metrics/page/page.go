// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"

	"tributary.dev/tributary/metrics/record"
)

//go:embed page.html page.css page.js icon.svg
var pageFiles embed.FS

// pageTemplate escapes by context: what clusters call their objects cannot
// become markup, an address of a link or a script.
var pageTemplate = template.Must(template.New("page.html").Funcs(texts).ParseFS(pageFiles, "page.html"))

// pagePolicy lets the page load its own files and talk to its own server, and
// nothing else: no inline script or style, no frame around it.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// files adds the page for people and the files it loads. Every link in it is
// relative, so that it works behind a proxy that serves it below a path.
func (p *pages) files(mux *http.ServeMux) {
	mux.Handle("GET /{$}", timed(http.HandlerFunc(p.page)))
	files := http.FileServerFS(pageFiles)
	for file, contentType := range map[string]string{
		"page.css": "text/css; charset=utf-8", "page.js": "text/javascript; charset=utf-8", "icon.svg": "image/svg+xml",
	} {
		mux.Handle("GET /"+file, timed(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			header(w, contentType)
			files.ServeHTTP(w, r)
		})))
	}
}

// page shows the status and the newest changes. The filter is that of
// /debug/changes, by Service and IP; one that cannot be understood is explained
// in the page, which then shows no change.
func (p *pages) page(w http.ResponseWriter, r *http.Request) {
	form, filter := readFilter(r.URL.Query())
	status := p.of.Status()
	var body bytes.Buffer
	if err := pageTemplate.Execute(&body, newView(&status, p.of.Changes().All(), form, filter)); err != nil {
		plain(w, http.StatusInternalServerError, fmt.Sprintf("render the page: %v\n", err))
		return
	}
	header(w, "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", pagePolicy)
	w.Header().Set("Referrer-Policy", "no-referrer")
	_, _ = w.Write(body.Bytes())
}

// pageFilter is the form above the changes, as it was filled in.
type pageFilter struct {
	Service, IP string
	// Problem says why the filter cannot be used.
	Problem string
	// On is whether anything was filled in.
	On bool
	// Query is the filter as the query of /debug/changes, with the question mark.
	Query string
}

// readFilter reads the page's query. A browser sends the fields of a form
// that were left empty too; they mean nothing.
func readFilter(values url.Values) (pageFilter, *record.Filter) {
	form, asked := pageFilter{}, url.Values{}
	for param, field := range map[string]*string{"service": &form.Service, "ip": &form.IP} {
		if value := strings.TrimSpace(values.Get(param)); value != "" {
			*field = visible(value)
			asked.Set(param, value)
			form.On = true
		}
	}
	query, err := record.ParseChangesQuery(asked)
	switch {
	case err != nil:
		form.Problem = "The " + visible(err.Error()) + "."
	case form.On:
		form.Query = "?" + asked.Encode()
	}
	return form, &query.Filter
}
