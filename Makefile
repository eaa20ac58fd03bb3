# Each target installs what it lacks: Debian packages (as root) and crates.
.DEFAULT_GOAL := help
.PHONY: help setup peers build demo test papers report bench clean

PACKAGES := clang llvm libelf-dev zlib1g-dev pkg-config make gcc ethtool iperf3 curl tshark iproute2 time

help:           ## this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

setup:          ## Debian packages that are missing
	@scripts/setup $(PACKAGES)

peers: setup    ## what the tests run beside our own: programs that upload, and other uTPs and an S3 server in target/
	@scripts/setup restic rclone rsync openssh-server openssh-client
	@scripts/setup-utp-peers
	@scripts/setup-upload-peers

build: setup    ## the command, at target/release/lowtide
	cargo build --release --locked -p lowtide

demo: build     ## the main job, in a laboratory of network namespaces: under three minutes; its page: results/demo.html
	@mkdir -p results
	target/release/lowtide demo --html results/demo.html

test: peers     ## every test, and the papers' quick set; what needs root or BPF says so when it is skipped
	cargo test --workspace --locked
	target/debug/lowtide papers run --quick --check --out target/papers

papers: build   ## every experiment of the papers in the simulator, and the report: results/papers/report.html
	target/release/lowtide papers run

report:         ## the papers' report in a browser (installs Chromium): silent, every plot drawn, legible on a phone
	scripts/check-report

bench: build    ## what it reaches and what it costs: the laboratory (two hours, root), on_ack, the simulator
	cargo bench --locked -p lowtide-cc --bench on_ack
	scripts/bench-sim
	scripts/setup-utp-peers
	cargo run --release --locked -p lowtide-utp-tokio --example loopback
	scripts/bench-sweep
	target/release/lowtide bench scavenger
	target/release/lowtide bench link --jobs 1
	scripts/bench-receive
	scripts/bench-send
	scripts/bench-send-cost
	scripts/bench-start

clean:          ## what was built and what was measured
	cargo clean
	rm -rf results
