// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"tributary.dev/tributary/e2e/cluster"
	"tributary.dev/tributary/e2e/fleet"
)

// scrapeEvery is how often tributary is scraped and rules are evaluated.
const scrapeEvery = time.Second

// patience replaces the "for" of the alerts, which is minutes in alerts.yaml.
const patience = "2s"

// prometheus is a real Prometheus server.
type prometheus struct {
	process *cluster.Process
	url     string
}

var waits = regexp.MustCompile(`(?m)^(\s*for: ).*$`)

// startPrometheus runs a Prometheus that scrapes tributary and further jobs, and
// evaluates the rules, in which only the waiting times are shortened.
func startPrometheus(ctx context.Context, dir string, o options, target, jobs string) (*prometheus, error) {
	rules, err := os.ReadFile(filepath.Join(chartFiles, "alerts.yaml"))
	if err != nil {
		return nil, fmt.Errorf("read alerts: %w", err)
	}
	config, err := configuration(o.native, strings.TrimPrefix(target, "http://"), jobs)
	if err != nil {
		return nil, fmt.Errorf("configure prometheus: %w", err)
	}
	home := filepath.Join(dir, "prometheus")
	if err := os.MkdirAll(home, 0o755); err != nil {
		return nil, fmt.Errorf("start prometheus: %w", err)
	}
	for name, text := range map[string][]byte{
		"alerts.yaml": waits.ReplaceAll(rules, []byte("${1}"+patience)), "prometheus.yaml": config,
	} {
		if err := os.WriteFile(filepath.Join(home, name), text, 0o644); err != nil {
			return nil, fmt.Errorf("start prometheus: %w", err)
		}
	}
	listen, err := cluster.FreeAddress()
	if err != nil {
		return nil, err
	}
	p := &prometheus{url: "http://" + listen, process: cluster.NewProcess(cluster.ProcessOptions{
		Name: "prometheus", Path: o.prometheus, Log: filepath.Join(home, "prometheus.log"),
		Args: []string{"--config.file", filepath.Join(home, "prometheus.yaml"), "--storage.tsdb.path", filepath.Join(home, "data"), "--web.listen-address", listen},
	})}
	if err := p.process.Start(ctx); err != nil {
		return nil, err
	}
	err = fleet.Eventually(ctx, time.Minute, func(ctx context.Context) error {
		samples, err := p.query(ctx, "up")
		if err == nil && len(samples) == 0 {
			err = fmt.Errorf("nothing scraped yet")
		}
		return err
	})
	if err != nil {
		p.process.Kill()
		return nil, fmt.Errorf("prometheus: %w\n%s", err, p.process.Tail(20))
	}
	return p, nil
}

// configuration is what deploy/ ships for a plain Prometheus, with another target and
// interval, and with further jobs. Native histograms are switched on for everything
// that is scraped, as an operator would.
func configuration(native bool, target, jobs string) ([]byte, error) {
	const form = "../deploy/prometheus/scrape.yaml"
	text, err := os.ReadFile(form)
	if err != nil {
		return nil, err
	}
	global := map[string]any{"scrape_interval": scrapeEvery.String(), "evaluation_interval": scrapeEvery.String()}
	var config struct {
		Global        map[string]any   `json:"global"`
		RuleFiles     []string         `json:"rule_files"`
		ScrapeConfigs []map[string]any `json:"scrape_configs"`
	}
	if err := yaml.UnmarshalStrict(text, &config); err != nil {
		return nil, fmt.Errorf("%s: %w", form, err)
	}
	if n := len(config.ScrapeConfigs); n != 1 {
		return nil, fmt.Errorf("%s: %d jobs; want the one of tributary", form, n)
	}
	config.Global = global
	job := config.ScrapeConfigs[0]
	if native {
		global["scrape_native_histograms"] = true
	} else {
		delete(job, "always_scrape_classic_histograms") // as scrape.yaml says of Prometheus before 3
	}
	job["scrape_interval"] = scrapeEvery.String()
	job["static_configs"] = []any{map[string]any{"targets": []string{target}}}
	var further []map[string]any
	if err := yaml.UnmarshalStrict([]byte(jobs), &further); err != nil {
		return nil, fmt.Errorf("further jobs: %w", err)
	}
	config.ScrapeConfigs = append(config.ScrapeConfigs, further...)
	return yaml.Marshal(config)
}

// sample is one element of an instant vector.
type sample struct {
	Metric map[string]string `json:"metric"`
	Value  [2]any            `json:"value"`
}

func (s sample) number() float64 {
	text, _ := s.Value[1].(string)
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0
	}
	return value
}

// query evaluates an expression now.
func (p *prometheus) query(ctx context.Context, expr string) ([]sample, error) {
	var answer struct {
		Data struct {
			Result []sample `json:"result"`
		} `json:"data"`
	}
	err := p.get(ctx, "/api/v1/query?query="+url.QueryEscape(expr), &answer)
	return answer.Data.Result, err
}

// target is a scrape target.
type target struct {
	Labels     map[string]string `json:"labels"`
	ScrapePool string            `json:"scrapePool"`
	Health     string            `json:"health"`
	LastError  string            `json:"lastError"`
}

// targets returns the current targets of a job.
func (p *prometheus) targets(ctx context.Context, job string) ([]target, error) {
	var answer struct {
		Data struct {
			Active []target `json:"activeTargets"`
		} `json:"data"`
	}
	// Debian's Prometheus is too old to select the pool in the server.
	err := p.get(ctx, "/api/v1/targets?state=active", &answer)
	return slices.DeleteFunc(answer.Data.Active, func(t target) bool { return t.ScrapePool != job }), err
}

// alert is an alert that is pending or firing.
type alert struct {
	Labels map[string]string `json:"labels"`
	State  string            `json:"state"`
}

// alerts returns what is pending or firing.
func (p *prometheus) alerts(ctx context.Context) ([]alert, error) {
	var answer struct {
		Data struct {
			Alerts []alert `json:"alerts"`
		} `json:"data"`
	}
	err := p.get(ctx, "/api/v1/alerts", &answer)
	return answer.Data.Alerts, err
}

func (p *prometheus) get(ctx context.Context, path string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+path, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %.300s", path, response.Status, body)
	}
	return json.Unmarshal(body, into)
}
