"""libtorrent as a peer, over uTP alone or TCP alone: seeds the torrent of a file of so many bytes, or fetches it from one address.

python3 libtorrent_peer.py MODULES FOLDER (utp|tcp) (seed BYTES | fetch HOST PORT)
HOST is where it listens, loopback by default; LIMIT_S how long it lives.
Prints `port N`, then the sha256 of the file: at once when it seeds, when it is whole when it fetches.
"""

import hashlib
import os
import sys
import time
import warnings

warnings.simplefilter("ignore", DeprecationWarning)  # libtorrent 2.0 knows only the old names
sys.path.insert(0, sys.argv[1])
import libtorrent as lt  # noqa: E402

folder, transport, role = sys.argv[2:5]
tcp = transport == "tcp"
host, limit = os.environ.get("HOST", "127.0.0.1"), float(os.environ.get("LIMIT_S", "50"))
session = lt.session({
    "listen_interfaces": host + ":0",
    "enable_outgoing_tcp": tcp, "enable_incoming_tcp": tcp,
    "enable_outgoing_utp": not tcp, "enable_incoming_utp": not tcp,
    "enable_dht": False, "enable_lsd": False, "enable_upnp": False, "enable_natpmp": False,
    "allow_multiple_connections_per_ip": True, "mixed_mode_algorithm": 0,
    "out_enc_policy": 2, "in_enc_policy": 2,
})
name, torrent = os.path.join(folder, "data"), os.path.join(folder, "data.torrent")


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def add(info, where, seeds):
    params = lt.add_torrent_params()
    params.ti, params.save_path = info, where
    params.flags &= ~(lt.torrent_flags.auto_managed | lt.torrent_flags.paused)
    if seeds:
        params.flags |= lt.torrent_flags.seed_mode
    return session.add_torrent(params)


def port():
    while session.listen_port() == 0:
        time.sleep(0.01)
    print("port", session.listen_port(), flush=True)


if role == "seed":
    with open(name, "wb") as file:
        left = int(sys.argv[5])
        while left > 0:
            part = os.urandom(min(left, 1 << 20))
            file.write(part)
            left -= len(part)
    files = lt.file_storage()
    lt.add_files(files, name)
    made = lt.create_torrent(files, 1 << 18)
    lt.set_piece_hashes(made, folder)
    with open(torrent, "wb") as file:
        file.write(lt.bencode(made.generate()))
    handle = add(lt.torrent_info(torrent), folder, True)
    # Before, it closes who asks for the torrent; `is_seeding` says yes while what is there is still being looked at.
    while handle.status().state != lt.torrent_status.seeding:
        time.sleep(0.02)
    print("sha256", sha256(name), flush=True)
    port()
    time.sleep(2 * limit)
else:
    where = os.path.join(folder, "fetched-" + transport)
    os.makedirs(where, exist_ok=True)
    handle = add(lt.torrent_info(torrent), where, False)
    port()
    handle.connect_peer((sys.argv[5], int(sys.argv[6])))
    end = time.time() + limit
    while not handle.status().is_seeding:
        if time.time() > end:
            sys.exit(f"not whole: {handle.status().progress:.3f} of it, {handle.status().num_peers} peers")
        time.sleep(0.02)
    print("sha256", sha256(os.path.join(where, "data")), flush=True)
