// Package failover chooses among several ways to deliver a message: by weight, and without those that fail now.
//
//	         a failure, the k-th in a row            the pause is over
//	closed ──────────────────────────────▶ open ──────────────────────▶ half-open: one call at a time
//	  ▲                                     ▲                              │   │
//	  │                                     └──── it failed: longer pause ─┘   │
//	  └──────────────────────────── it succeeded ──────────────────────────────┘
//
// Each server has its own breakers: what one learns, the others learn by themselves.
//
// Imports: github.com/hashicorp/golang-lru/v2.
package failover
