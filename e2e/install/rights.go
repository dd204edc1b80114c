// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// auditReads records every finished request, also reads and watches.
const auditReads = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
`

// request is one line of such an audit log.
type request struct {
	Verb string `json:"verb"`
	User struct {
		Username string `json:"username"`
	} `json:"user"`
	URI       string `json:"requestURI"`
	ObjectRef *struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		APIGroup    string `json:"apiGroup"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
}

// requests returns the requests of one user in an audit log.
func requests(path, user string) ([]request, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all []request
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<22)
	for lines.Scan() {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			continue // the last line may still be written
		}
		if r.User.Username == user && r.ObjectRef != nil {
			all = append(all, r)
		}
	}
	return all, lines.Err()
}

// right formats a verb on a resource, such as "list discovery.k8s.io/endpointslices".
func right(verb, group, resource, subresource string) string {
	if group != "" {
		resource = group + "/" + resource
	}
	if subresource != "" {
		resource += "/" + subresource
	}
	return verb + " " + resource
}

// judge returns which requests of an account were refused, and which of its rights it never used.
func judge(ctx context.Context, client kubernetes.Interface, log, namespace, account string) (refused, unused []string, err error) {
	granted, err := grants(ctx, client, namespace, account)
	if err != nil {
		return nil, nil, err
	}
	sent, err := requests(log, "system:serviceaccount:"+namespace+":"+account)
	if err != nil {
		return nil, nil, err
	}
	if len(sent) == 0 {
		return nil, nil, fmt.Errorf("%s/%s sent nothing", namespace, account)
	}
	for _, r := range sent {
		if r.ResponseStatus.Code == 403 {
			refused = append(refused, right(r.Verb, r.ObjectRef.APIGroup, r.ObjectRef.Resource, r.ObjectRef.Subresource)+" "+r.URI)
		}
		delete(granted, right(r.Verb, r.ObjectRef.APIGroup, r.ObjectRef.Resource, r.ObjectRef.Subresource))
	}
	slices.Sort(refused)
	return slices.Compact(refused), slices.Sorted(maps.Keys(granted)), nil
}

// grants returns the rights that an account has by its own bindings.
func grants(ctx context.Context, client kubernetes.Interface, namespace, account string) (map[string]bool, error) {
	rbac := client.RbacV1()
	out := map[string]bool{}
	ofAccount := func(subjects []rbacv1.Subject) bool {
		return slices.ContainsFunc(subjects, func(s rbacv1.Subject) bool {
			return s.Kind == rbacv1.ServiceAccountKind && s.Namespace == namespace && s.Name == account
		})
	}
	add := func(rules []rbacv1.PolicyRule) {
		for _, rule := range rules {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						resource, subresource, _ := strings.Cut(resource, "/")
						out[right(verb, group, resource, subresource)] = true
					}
				}
			}
		}
	}
	cluster, err := rbac.ClusterRoleBindings().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, b := range cluster.Items {
		if ofAccount(b.Subjects) {
			role, err := rbac.ClusterRoles().Get(ctx, b.RoleRef.Name, metav1.GetOptions{})
			if err != nil {
				return nil, err
			}
			add(role.Rules)
		}
	}
	local, err := rbac.RoleBindings("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, b := range local.Items {
		if ofAccount(b.Subjects) {
			role, err := rbac.Roles(b.Namespace).Get(ctx, b.RoleRef.Name, metav1.GetOptions{})
			if err != nil {
				return nil, err
			}
			add(role.Rules)
		}
	}
	return out, nil
}
