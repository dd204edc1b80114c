// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/clusters/kubeconfig"
)

// lifetime is requested for the token; the API server may grant less. Tributary renews it at the
// last third.
const lifetime = 30 * 24 * time.Hour

// RequestToken asks for a token of an account.
func RequestToken(ctx context.Context, client corev1.ServiceAccountsGetter, namespace, account string, life time.Duration) (*authenticationv1.TokenRequestStatus, error) {
	granted, err := client.ServiceAccounts(namespace).CreateToken(ctx, account, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(life / time.Second))},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("ask for a token of %s/%s: %w", namespace, account, err)
	}
	return &granted.Status, nil
}

// CheckServer reports why Link would send no token to the member's address, and make nothing.
func (o *Options) CheckServer() error {
	where, err := url.Parse(o.Server.Host)
	switch {
	case err != nil || where.Scheme != "https" || where.Hostname() == "" || where.User != nil || where.RawQuery != "" || where.Fragment != "":
		return fmt.Errorf("%q is not the https:// URL of an API server, and Tributary sends a token to no other; give --server https://HOST:PORT", o.Server.Host)
	case o.Server.Insecure:
		return errors.New("the context skips the verification of the server's certificate: give the context a certificate-authority")
	}
	return nil
}

// checkFile reports why a file may not be replaced or removed: link did not make it for this
// member.
func (o *Options) checkFile() error {
	if o.Ingress != nil {
		return nil
	}
	text, err := os.ReadFile(o.File)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	file, err := clientcmd.Load(text)
	if err == nil && len(file.Contexts) == 1 && file.Contexts[o.Name] != nil && file.AuthInfos[o.Account] != nil {
		token, made := kubeconfig.ParseAccountToken(file.AuthInfos[o.Account].Token)
		if made && token.Namespace == o.Namespace && token.Account == o.Account {
			return nil
		}
	}
	return fmt.Errorf("%s is there and is not the kubeconfig of %s that link made for the account %s/%s: give another --file, or take it away", o.File, o.Name, o.Namespace, o.Account)
}

// secret is the Secret of the ingress cluster. It says, too, which namespaces may be read.
func (o *Options) secret(text []byte) *unstructured.Unstructured {
	secret := object("Secret", o.IngressNamespace, o.Name)
	secret.Object["data"] = map[string]any{config.SecretKey: base64.StdEncoding.EncodeToString(text)}
	secret.SetLabels(labels.Merge(o.labels(), labels.Set{config.SecretLabel: config.SecretLabelValue}))
	if len(o.Namespaces) > 0 {
		secret.SetAnnotations(map[string]string{config.SettingsAnnotation: o.Settings()})
	}
	return secret
}

// Settings are those of the member, as YAML: a namespace may have a number's name.
func (o *Options) Settings() string {
	return `namespaces: {include: ["` + strings.Join(o.Namespaces, `", "`) + `"], exclude: []}`
}

// store makes a kubeconfig with a token and puts it where Tributary finds it.
func (o *Options) store(ctx context.Context, token string) error {
	file := api.NewConfig()
	file.Clusters[o.Name] = &api.Cluster{Server: o.Server.Host, TLSServerName: o.Server.ServerName, CertificateAuthorityData: o.Server.CAData}
	file.AuthInfos[o.Account] = &api.AuthInfo{Token: token}
	file.Contexts[o.Name] = &api.Context{Cluster: o.Name, AuthInfo: o.Account}
	file.CurrentContext = o.Name
	text, err := clientcmd.Write(*file)
	if err != nil {
		return errors.New("the kubeconfig cannot be written") // clientcmd's own error can quote it
	}
	if o.Ingress != nil {
		return o.apply(ctx, o.Ingress, o.secret(text))
	}
	if err := kubeconfig.ReplaceFile(o.File, text); err != nil {
		return err
	}
	o.Report("written", "file "+o.File)
	return nil
}

// unstore removes the kubeconfig.
func (o *Options) unstore(ctx context.Context) error {
	if o.Ingress != nil {
		is, err := o.get(ctx, o.Ingress, object("Secret", o.IngressNamespace, o.Name))
		if err != nil || is == nil {
			return err
		}
		return o.delete(ctx, o.Ingress, is)
	}
	if err := o.checkFile(); err != nil {
		return err
	}
	switch err := os.Remove(o.File); {
	case err == nil:
		o.Report("deleted", "file "+o.File)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return nil
}
