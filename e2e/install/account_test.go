// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"tributary.dev/tributary/e2e/fleet"
)

// agedToken returns a token of Tributary's account in a member that was issued 25 days ago for 30, as by `tributary link`.
// It is signed with the cluster's own key.
func agedToken(ctx context.Context, member *fleet.Site) (string, error) {
	account, err := member.Client.CoreV1().ServiceAccounts(own).Get(ctx, "tributary-member", metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	const issuer = "https://kubernetes.default.svc"
	now := time.Now()
	claims := map[string]any{
		"iss": issuer, "aud": []string{issuer}, "sub": "system:serviceaccount:" + own + ":" + account.Name,
		"iat": now.AddDate(0, 0, -25).Unix(), "nbf": now.AddDate(0, 0, -25).Unix(), "exp": now.AddDate(0, 0, 5).Unix(),
		"kubernetes.io": map[string]any{"namespace": own, "serviceaccount": map[string]any{"name": account.Name, "uid": account.UID}},
	}
	text, err := os.ReadFile(filepath.Join(member.Dir(), "accounts.key"))
	if err != nil {
		return "", err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return "", errors.New("accounts.key is not PEM")
	}
	key, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		return "", err
	}
	body, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	encode := base64.RawURLEncoding.EncodeToString
	signed := encode([]byte(`{"alg":"ES256","typ":"JWT"}`)) + "." + encode(body)
	digest := sha256.Sum256([]byte(signed))
	r, s, err := ecdsa.Sign(rand.Reader, key, digest[:])
	if err != nil {
		return "", err
	}
	return signed + "." + encode(append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)), nil
}

// token returns the one in the Secret of a member, which it replaces by other, unless that is "".
func (s *site) token(member, other string) string {
	s.Helper()
	secrets := s.fleet.Ingress.Client.CoreV1().Secrets(own)
	secret, err := secrets.Get(s.Context(), member, metav1.GetOptions{})
	s.must(err)
	file, err := clientcmd.Load(secret.Data["kubeconfig"])
	s.must(err)
	user := file.AuthInfos[file.Contexts[file.CurrentContext].AuthInfo]
	if other != "" {
		user.Token = other
		secret.Data["kubeconfig"], err = clientcmd.Write(*file)
		s.must(err)
		_, err = secrets.Update(s.Context(), secret, metav1.UpdateOptions{})
		s.must(err)
	}
	return user.Token
}

// age puts a token that expires in five days into the Secret of a member, and returns a condition: it was renewed.
func (s *site) age(member *fleet.Site) (renewed func(context.Context) error) {
	s.Helper()
	aged, err := agedToken(s.Context(), member)
	s.must(err)
	s.token(member.Name(), aged)
	return func(context.Context) error {
		if s.token(member.Name(), "") == aged {
			return fmt.Errorf("the token of %s is not renewed", member.Name())
		}
		return nil
	}
}
