package main

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/crypto/argon2"
)

var tokensSection = Section{
	Name:  "tokens",
	About: "requests per second of the authorization server, over persistent connections",
	Run:   measureTokens,
}

// tokensGoal is the minimum rate of the token endpoint as a share of the
// machine's bare signing rate, including load generator and HTTP.
const tokensGoal = 0.90

// A server limits one client to 500 requests a second and one user to 2 logins a
// second, 30 at once. Enough clients and users take turns to stay below.
const (
	tokenClients = 16
	tokenUsers   = 64
)

func measureTokens(ctx context.Context, r *Report) (err error) {
	rounds, d := 3, 3*time.Second
	if r.Short {
		rounds, d = 1, time.Second
	}
	s, err := r.Start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	c, err := newCast(ctx, s, tokenClients, tokenUsers)
	if err != nil {
		return err
	}
	load := func(requests [][]byte, connections int) Contender {
		return Load{Addr: s.API, Requests: requests, Connections: connections, Duration: d, PID: s.PID}.Run
	}
	if err := grantFigures(ctx, r, rounds, d,
		func(connections int) Contender { return load(c.tokens, connections) }); err != nil {
		return err
	}
	if err := otherFigures(ctx, r, rounds, d, c, load); err != nil {
		return err
	}
	if err := ellipticFigure(ctx, r, s, rounds, d, load(c.tokens, 32)); err != nil {
		return err
	}
	r.Note("the best of %d rounds of %s each; the rounds of a figure and of what it stands beside take turns. No answer "+
		"was other than 200: no rate limit was hit.", rounds, d)
	r.Note("%d clients take turns. The load generator shares the %d processors with the server; CPU is what each of the "+
		"two took for a request.", tokenClients, runtime.NumCPU())
	if r.ProfileDir == "" {
		return nil
	}
	file := filepath.Join(r.ProfileDir, "tokens.pprof")
	r.Note("profile of the client_credentials grant over 8 connections: %s", file)
	return s.Profile(ctx, int(d.Seconds()), file, func() error {
		_, err := load(c.tokens, 8)(ctx)
		return err
	})
}

// grantFigures compares the client_credentials grant with bare signing.
func grantFigures(ctx context.Context, r *Report, rounds int, d time.Duration,
	tokens func(connections int) Contender) error {
	sign, err := signer()
	if err != nil {
		return err
	}
	cores := runtime.GOMAXPROCS(0)
	best, err := bestOf(ctx, rounds, bare(cores, d, sign), tokens(1), tokens(8), bare(1, d, sign), tokens(32))
	if err != nil {
		return err
	}
	all := &Beside{fmt.Sprintf("bare RSA-2048 signing, %d at once", cores), best[0].PerSecond}
	one := &Beside{"bare RSA-2048 signing, 1 at once", best[3].PerSecond}
	r.Add(rateFigure("client_credentials, 1 connection", best[1], one, Goal{}))
	r.Add(rateFigure("client_credentials, 8 connections", best[2], all, ShareOf(tokensGoal)))
	r.Add(rateFigure("client_credentials, 32 connections", best[4], all, ShareOf(tokensGoal)))
	r.Note("one connection has one request under way, so it is set beside one goroutine, and has no goal.")
	return nil
}

// otherFigures are informational: logins, and token checks.
func otherFigures(ctx context.Context, r *Report, rounds int, d time.Duration, c *cast,
	load func([][]byte, int) Contender) error {
	best, err := bestOf(ctx, rounds,
		bare(2, d, hashPassword), load(c.logins, 8), load([][]byte{c.health}, 8), load(c.userInfos, 8))
	if err != nil {
		return err
	}
	r.Add(rateFigure("password grant, 8 connections", best[1], &Beside{"bare argon2id, 2 at once", best[0].PerSecond},
		Goal{}))
	r.Add(rateFigure("GET /userinfo, 8 connections", best[3], &Beside{"GET /healthz, 8 connections", best[2].PerSecond},
		Goal{}))
	return nil
}

// ellipticFigure replaces the server's key by one of an elliptic curve, and compares the client_credentials grant with
// bare RSA signing again: what a server can do whose clients know ES256.
func ellipticFigure(ctx context.Context, r *Report, s *Server, rounds int, d time.Duration, tokens Contender) error {
	admin, err := s.Token(ctx, basic("admin", adminSecret), url.Values{"grant_type": {"client_credentials"}})
	if err != nil {
		return err
	}
	err = s.Create(ctx, admin, "/token_keys/rotate", map[string]string{"algorithm": "ES256"})
	if err != nil {
		return err
	}
	sign, err := signer()
	if err != nil {
		return err
	}
	cores := runtime.GOMAXPROCS(0)
	best, err := bestOf(ctx, rounds, bare(cores, d, sign), tokens)
	if err != nil {
		return err
	}
	r.Add(rateFigure("client_credentials with ES256, 32 connections", best[1],
		&Beside{fmt.Sprintf("bare RSA-2048 signing, %d at once", cores), best[0].PerSecond}, ShareOf(tokensGoal)))
	return nil
}

func rateFigure(name string, got Result, beside *Beside, goal Goal) Figure {
	detail := fmt.Sprintf("p50 %s ms, p99 %s ms",
		number(millis(percentile(got.Latencies, 0.50))), number(millis(percentile(got.Latencies, 0.99))))
	if got.Server > 0 {
		detail += fmt.Sprintf("; CPU: server %d us, load %d us", got.Server.Microseconds(), got.Load.Microseconds())
	}
	return Figure{Name: name, Value: got.PerSecond, Unit: "/s", Beside: beside, Goal: goal, Detail: detail}
}

// besides is rateFigure beside a peer, with the peer's processor time, which says more than its rate on a busy machine.
func besides(name string, got Result, peer string, its Result, goal Goal) Figure {
	f := rateFigure(name, got, &Beside{peer, its.PerSecond}, goal)
	if its.Server > 0 {
		f.Detail += fmt.Sprintf(", %s %d us", peer, its.Server.Microseconds())
	}
	return f
}

// signer signs a token's content and does nothing else: the limit of any server
// that issues RS256 tokens.
func signer() (func() error, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	content := make([]byte, 700) // about the size of header and claims
	return func() error {
		sum := sha256.Sum256(content)
		_, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
		return err
	}, nil
}

// hashPassword is a password verification as in the server, which runs two at
// once: argon2id with 19 MiB and two passes.
func hashPassword() error {
	argon2.IDKey([]byte(adminPassword), make([]byte, 16), 2, 19<<10, 1, 32)
	return nil
}
