//! What tests look at.

use lowtide_units::Time;

use super::Sender;

impl Sender {
    /// When the pacer lets the next segment go, if that is what it waits for.
    pub fn paced_until(&self) -> Option<Time> {
        self.wait
    }

    /// The pacer alone is due.
    pub fn on_pacer(&mut self, now: Time) {
        self.wait = self.wait.filter(|&at| at > now);
    }

    /// When the timer expires.
    pub fn timer_at(&self) -> Option<Time> {
        self.timer.map(|(at, _)| at)
    }

    /// Its state for a message.
    pub fn describe(&self) -> String {
        let mss = f64::from(self.config.mss);
        let (pipe, window) = (self.in_flight() as f64 / mss, self.window() as f64 / mss);
        let (lost, sacked, resent) = (self.board.lost(), self.board.sacked(), self.board.resent());
        format!("{:?}, {pipe} of {window:.2} in flight, {lost} lost, {sacked} sacked, {resent} resent, timer {:?}", self.state, self.timer)
    }
}
